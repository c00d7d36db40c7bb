// RUN: tilec opt %s --split-input-file --verify-diagnostics

llvm.func @f(%bar: !llvm.ptr<1>, %n: i32) {
  // expected-error@+1 {{operand 'addr' at position 0 does not verify: Expected attribute !llvm.ptr<3> but got !llvm.ptr<1>}}
  "nvvm.mbarrier.init"(%bar, %n) : (!llvm.ptr<1>, i32) -> ()
  llvm.return
}

// -----

llvm.func @f() {
  // expected-error@+1 {{space is given exactly when kind is async.shared}}
  nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>}
  llvm.return
}

// -----

llvm.func @f(%map: !llvm.ptr, %smem: !llvm.ptr<3>, %m: i32) {
  // expected-error@+1 {{the destination is !llvm.ptr<7> without isCTAOnly, got !llvm.ptr<3>}}
  nvvm.cp.async.bulk.tensor.shared.cluster.global %smem, %map, %smem, box[%m] : !llvm.ptr<3>, !llvm.ptr
  llvm.return
}

// -----

llvm.func @f(%map: !llvm.ptr, %smem: !llvm.ptr<3>, %m: i32) {
  // expected-error@+1 {{1 to 5 coordinates, got 6}}
  nvvm.cp.async.bulk.tensor.global.shared.cta %map, %smem, box[%m, %m, %m, %m, %m, %m] : !llvm.ptr, !llvm.ptr<3>
  llvm.return
}

// -----

llvm.func @f() {
  // expected-error@+1 {{group is 0 to 7, got 8}}
  nvvm.wgmma.wait.group.sync.aligned 8
  llvm.return
}

// -----

llvm.func @f(%tmem: !llvm.ptr<6>) {
  // expected-error@+1 {{shape_16x256b fills}}
  %0 = nvvm.tcgen05.ld %tmem {shape = #nvvm.tcgen05_ldst_shape<shape_16x256b>} : vector<2xi32>
  llvm.return
}
