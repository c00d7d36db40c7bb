// Every op in upstream MLIR's spelling comes back as it was written.
// RUN: tilec opt %s > %t.mlir && tilec opt %t.mlir | filecheck %s

// CHECK-LABEL: llvm.func @special_registers
llvm.func @special_registers() {
  // CHECK-NEXT: nvvm.read.ptx.sreg.tid.x : i32
  // CHECK-NEXT: nvvm.read.ptx.sreg.ctaid.x : i32
  // CHECK-NEXT: nvvm.read.ptx.sreg.nctaid.x : i32
  // CHECK-NEXT: nvvm.read.ptx.sreg.laneid : i32
  %0 = nvvm.read.ptx.sreg.tid.x : i32
  %1 = nvvm.read.ptx.sreg.ctaid.x : i32
  %2 = nvvm.read.ptx.sreg.nctaid.x : i32
  %3 = nvvm.read.ptx.sreg.laneid : i32
  llvm.return
}

// CHECK-LABEL: llvm.func @barriers
llvm.func @barriers(%bar: !llvm.ptr<3>, %n: i32) {
  // CHECK: nvvm.barrier
  // CHECK-NEXT: nvvm.barrier id = %n number_of_threads = %n
  // CHECK-NEXT: nvvm.bar.warp.sync %n : i32
  // CHECK-NEXT: nvvm.elect.sync -> i1
  // CHECK-NEXT: nvvm.elect.sync %n -> i1
  // CHECK-NEXT: nvvm.mbarrier.init %bar, %n : !llvm.ptr<3>, i32
  // CHECK-NEXT: nvvm.mbarrier.arrive %bar : !llvm.ptr<3> -> i64
  // CHECK-NEXT: nvvm.mbarrier.arrive.expect_tx %bar, %n : !llvm.ptr<3>, i32
  // CHECK-NEXT: nvvm.mbarrier.try_wait.parity %bar, %n, %n : !llvm.ptr<3>, i32, i32
  // CHECK-NEXT: nvvm.mbarrier.try_wait %bar, %n : !llvm.ptr<3>, i32 -> i1
  // CHECK-NEXT: nvvm.mbarrier.inval %bar : !llvm.ptr<3>
  // CHECK-NEXT: nvvm.fence.mbarrier.init
  // CHECK-NEXT: nvvm.fence.proxy {kind = #nvvm.proxy_kind<async>}
  // CHECK-NEXT: nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
  nvvm.barrier
  nvvm.barrier id = %n number_of_threads = %n
  nvvm.bar.warp.sync %n : i32
  %0 = nvvm.elect.sync -> i1
  %1 = nvvm.elect.sync %n -> i1
  nvvm.mbarrier.init %bar, %n : !llvm.ptr<3>, i32
  %2 = nvvm.mbarrier.arrive %bar : !llvm.ptr<3> -> i64
  nvvm.mbarrier.arrive.expect_tx %bar, %n : !llvm.ptr<3>, i32
  nvvm.mbarrier.try_wait.parity %bar, %n, %n : !llvm.ptr<3>, i32, i32
  %3 = nvvm.mbarrier.try_wait %bar, %n : !llvm.ptr<3>, i32 -> i1
  nvvm.mbarrier.inval %bar : !llvm.ptr<3>
  nvvm.fence.mbarrier.init
  nvvm.fence.proxy {kind = #nvvm.proxy_kind<async>}
  nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
  llvm.return
}

// CHECK-LABEL: llvm.func @copies
llvm.func @copies(%map: !llvm.ptr, %smem: !llvm.ptr<3>, %cluster: !llvm.ptr<7>, %m: i32, %mask: i16, %hint: i64) {
  // CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global %cluster, %map, %smem, box[%m] : !llvm.ptr<7>, !llvm.ptr
  // CHECK-NEXT: nvvm.cp.async.bulk.tensor.shared.cluster.global %cluster, %map, %smem, box[%m, %m] multicast_mask = %mask l2_cache_hint = %hint {group = #nvvm.cta_group<cta_2>} : !llvm.ptr<7>, !llvm.ptr
  // CHECK-NEXT: nvvm.cp.async.bulk.tensor.shared.cluster.global %smem, %map, %smem, box[%m] {isCTAOnly = true} : !llvm.ptr<3>, !llvm.ptr
  // CHECK-NEXT: nvvm.cp.async.bulk.tensor.global.shared.cta %map, %smem, box[%m, %m, %m] l2_cache_hint = %hint : !llvm.ptr, !llvm.ptr<3>
  // CHECK-NEXT: nvvm.cp.async.bulk.commit.group
  // CHECK-NEXT: nvvm.cp.async.bulk.wait_group 0
  // CHECK-NEXT: nvvm.cp.async.bulk.wait_group 1 {read}
  // CHECK-NEXT: nvvm.prefetch tensormap, %map : !llvm.ptr
  // CHECK-NEXT: nvvm.prefetch tensormap in_param_space, %map : !llvm.ptr
  // CHECK-NEXT: nvvm.stmatrix %smem, %m, %m {layout = #nvvm.mma_layout<row>, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>, eltType = #nvvm.ld_st_matrix_elt_type<b16>} : !llvm.ptr<3>, i32, i32
  nvvm.cp.async.bulk.tensor.shared.cluster.global %cluster, %map, %smem, box[%m] : !llvm.ptr<7>, !llvm.ptr
  nvvm.cp.async.bulk.tensor.shared.cluster.global %cluster, %map, %smem, box[%m, %m] multicast_mask = %mask l2_cache_hint = %hint {group = #nvvm.cta_group<cta_2>} : !llvm.ptr<7>, !llvm.ptr
  nvvm.cp.async.bulk.tensor.shared.cluster.global %smem, %map, %smem, box[%m] {isCTAOnly = true} : !llvm.ptr<3>, !llvm.ptr
  nvvm.cp.async.bulk.tensor.global.shared.cta %map, %smem, box[%m, %m, %m] l2_cache_hint = %hint : !llvm.ptr, !llvm.ptr<3>
  nvvm.cp.async.bulk.commit.group
  nvvm.cp.async.bulk.wait_group 0
  nvvm.cp.async.bulk.wait_group 1 {read}
  nvvm.prefetch tensormap, %map : !llvm.ptr
  nvvm.prefetch tensormap in_param_space, %map : !llvm.ptr
  nvvm.stmatrix %smem, %m, %m {layout = #nvvm.mma_layout<row>, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>, eltType = #nvvm.ld_st_matrix_elt_type<b16>} : !llvm.ptr<3>, i32, i32
  llvm.return
}

// CHECK-LABEL: llvm.func @wgmma
llvm.func @wgmma() {
  // CHECK: nvvm.wgmma.fence.aligned
  // CHECK-NEXT: nvvm.wgmma.commit.group.sync.aligned
  // CHECK-NEXT: nvvm.wgmma.wait.group.sync.aligned 1
  nvvm.wgmma.fence.aligned
  nvvm.wgmma.commit.group.sync.aligned
  nvvm.wgmma.wait.group.sync.aligned 1
  llvm.return
}

// CHECK-LABEL: llvm.func @tcgen05
llvm.func @tcgen05(%slot: !llvm.ptr<3>, %tmem: !llvm.ptr<6>, %columns: i32, %desc: i64, %accumulate: i1, %ctas: i16) {
  // CHECK: nvvm.tcgen05.alloc %slot, %columns : !llvm.ptr<3>, i32
  // CHECK-NEXT: nvvm.tcgen05.relinquish_alloc_permit {group = #nvvm.cta_group<cta_2>}
  // CHECK-NEXT: nvvm.tcgen05.mma %tmem, %desc, %desc, %columns, %accumulate {kind = #nvvm.tcgen05_mma_kind<f16>, ctaGroup = #nvvm.cta_group<cta_1>} : (!llvm.ptr<6>, i64, i64, i32, i1)
  // CHECK-NEXT: nvvm.tcgen05.mma %tmem, %tmem, %desc, %columns, %accumulate {kind = #nvvm.tcgen05_mma_kind<tf32>, ctaGroup = #nvvm.cta_group<cta_1>, collectorOp = #nvvm.tcgen05_mma_collectorop<use>} : (!llvm.ptr<6>, !llvm.ptr<6>, i64, i32, i1)
  // CHECK-NEXT: nvvm.tcgen05.commit %slot : !llvm.ptr<3>
  // CHECK-NEXT: nvvm.tcgen05.commit %slot, multicast_mask = %ctas : !llvm.ptr<3>, i16
  // CHECK-NEXT: nvvm.tcgen05.fence <before>
  // CHECK-NEXT: nvvm.tcgen05.fence <after>
  // CHECK-NEXT: %v = nvvm.tcgen05.ld %tmem {shape = #nvvm.tcgen05_ldst_shape<shape_32x32b>} : vector<32xi32>
  // CHECK-NEXT: nvvm.tcgen05.ld %tmem, %desc pack {shape = #nvvm.tcgen05_ldst_shape<shape_16x32bx2>} : i32
  // CHECK-NEXT: nvvm.tcgen05.wait <load>
  // CHECK-NEXT: nvvm.tcgen05.dealloc %tmem, %columns : !llvm.ptr<6>, i32
  nvvm.tcgen05.alloc %slot, %columns : !llvm.ptr<3>, i32
  nvvm.tcgen05.relinquish_alloc_permit {group = #nvvm.cta_group<cta_2>}
  nvvm.tcgen05.mma %tmem, %desc, %desc, %columns, %accumulate {kind = #nvvm.tcgen05_mma_kind<f16>, ctaGroup = #nvvm.cta_group<cta_1>} : (!llvm.ptr<6>, i64, i64, i32, i1)
  nvvm.tcgen05.mma %tmem, %tmem, %desc, %columns, %accumulate {kind = #nvvm.tcgen05_mma_kind<tf32>, ctaGroup = #nvvm.cta_group<cta_1>, collectorOp = #nvvm.tcgen05_mma_collectorop<use>} : (!llvm.ptr<6>, !llvm.ptr<6>, i64, i32, i1)
  nvvm.tcgen05.commit %slot : !llvm.ptr<3>
  nvvm.tcgen05.commit %slot, multicast_mask = %ctas : !llvm.ptr<3>, i16
  nvvm.tcgen05.fence <before>
  nvvm.tcgen05.fence <after>
  %v = nvvm.tcgen05.ld %tmem {shape = #nvvm.tcgen05_ldst_shape<shape_32x32b>} : vector<32xi32>
  %w = nvvm.tcgen05.ld %tmem, %desc pack {shape = #nvvm.tcgen05_ldst_shape<shape_16x32bx2>} : i32
  nvvm.tcgen05.wait <load>
  nvvm.tcgen05.dealloc %tmem, %columns : !llvm.ptr<6>, i32
  llvm.return
}
