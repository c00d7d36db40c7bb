; A warm call of a kernel: from the call in Python to cuLaunchKernelEx.
;
; Everything that this code touches is reached through a structure State, which Python fills. So the machine code has no
; relocations, no external symbols and no data of its own: it can be stored as bytes and runs wherever it is mapped.
; layout.py has the structures, and adds what reads their fields to this text: @State.miss(ptr %state) loads the field `miss`,
; @Config.stream.at is its address, @Slot.item the address of an item of an array, %View as many bytes as a View has.
;
; The global interpreter lock is held but between save_thread and restore_thread, around the calls of the driver. What is not
; exactly a call that was remembered goes to the Python callable `miss` with the same arguments.

; ---- entry points --------------------------------------------------------------------------------------------------------

; `call` and `key` are functions of built-ins (METH_FASTCALL | METH_KEYWORDS) whose `self` is a bytes object, the address of
; the state. `vectorcall` is a vectorcallfunc in its callable object, behind which the address of the state follows.

define ptr @call(ptr %self, ptr %arguments, i64 %given, ptr %keywords) #0 {
  %state = call ptr @state_of(ptr %self)
  %result = tail call ptr @launch(ptr %state, ptr %arguments, i64 %given, ptr %keywords)
  ret ptr %result
}

define ptr @vectorcall(ptr %callable, ptr %arguments, i64 %flags, ptr %keywords) #0 {
  ; PyTypeObject.tp_vectorcall_offset, which callable_type.py checks
  %type = call ptr @type_of(ptr %callable)
  %offset.at = getelementptr i8, ptr %type, i64 56
  %offset = load i64, ptr %offset.at
  %function = getelementptr i8, ptr %callable, i64 %offset
  %state.at = getelementptr ptr, ptr %function, i64 1
  %state = load ptr, ptr %state.at
  ; The highest bit is PY_VECTORCALL_ARGUMENTS_OFFSET.
  %given = and i64 %flags, 9223372036854775807
  %result = tail call ptr @launch(ptr %state, ptr %arguments, i64 %given, ptr %keywords)
  ret ptr %result
}

; The key of these tensors as bytes: its hash, then its words. None where calls with such tensors cannot be remembered.
define ptr @key(ptr %self, ptr %arguments, i64 %given, ptr %keywords) #0 {
  %key = alloca [257 x i64], align 16
  %state = call ptr @state_of(ptr %self)
  %words = getelementptr i64, ptr %key, i64 1
  %length = call i64 @describe(ptr %state, ptr %arguments, i64 %given, ptr %words, i64 0)
  %refused = icmp eq i64 %length, 0
  br i1 %refused, label %none, label %some

none:
  %nothing = call ptr @new_none(ptr %state)
  ret ptr %nothing

some:
  %hash = call i64 @hash(ptr %words, i64 %length)
  store i64 %hash, ptr %key
  %all = add i64 %length, 1
  %bytes = shl i64 %all, 3
  %make = call ptr @State.bytes_from_string(ptr %state)
  %made = call ptr %make(ptr %key, i64 %bytes)
  ret ptr %made
}

; ---- a call --------------------------------------------------------------------------------------------------------------

define internal ptr @launch(ptr %state, ptr %arguments, i64 %given, ptr %keywords) #2 {
  %gathered = alloca [64 x ptr], align 16
  %words = alloca [256 x i64], align 16
  %result = alloca ptr
  %none = call ptr @State.none(ptr %state)
  store ptr %none, ptr %result
  %inputs = call i64 @State.inputs(ptr %state)
  %outputs = call i64 @State.outputs(ptr %state)
  %count = add i64 %inputs, %outputs
  %exact = icmp eq i64 %given, %inputs
  br i1 %exact, label %counted, label %miss

counted:
  %bare = icmp eq ptr %keywords, null
  br i1 %bare, label %positional, label %named

positional:
  %complete = icmp eq i64 %outputs, 0
  br i1 %complete, label %try, label %new_outputs

new_outputs:
  %made = call ptr @launch_new(ptr %state, ptr %arguments)
  %unknown.outputs = icmp eq ptr %made, null
  br i1 %unknown.outputs, label %maybe_miss, label %launched_new

launched_new:
  ret ptr %made

maybe_miss:
  %occurred = call ptr @State.occurred(ptr %state)
  %error = call ptr %occurred()
  %no_error = icmp eq ptr %error, null
  br i1 %no_error, label %miss, label %raised

named:
  %stream.named = call ptr @gather(ptr %state, ptr %arguments, ptr %keywords, ptr %gathered, ptr %result)
  %unknown = icmp eq ptr %stream.named, null
  br i1 %unknown, label %miss, label %try

try:
  %tensors = phi ptr [ %arguments, %positional ], [ %gathered, %named ]
  %stream = phi ptr [ %none, %positional ], [ %stream.named, %named ]
  %length = call i64 @describe(ptr %state, ptr %tensors, i64 %count, ptr %words, i64 0)
  %outcome = call i32 @attempt(ptr %state, ptr %words, i64 %length, ptr %stream)
  switch i32 %outcome, label %raised [
    i32 0, label %launched
    i32 1, label %miss
  ]

launched:
  %hold = call ptr @State.incref(ptr %state)
  %value = load ptr, ptr %result
  call void %hold(ptr %value)
  ret ptr %value

raised:
  ret ptr null

miss:
  %vectorcall = call ptr @State.vectorcall(ptr %state)
  %slow = call ptr @State.miss(ptr %state)
  %other = tail call ptr %vectorcall(ptr %slow, ptr %arguments, i64 %given, ptr %keywords)
  ret ptr %other
}

; A call without `out`: makes the outputs as remembered for these inputs, and launches, or goes to `miss` with them as `out`.
; Gives what that gives, else the outputs. Null: an exception is set, or else nothing was remembered.
define internal ptr @launch_new(ptr %state, ptr %inputs) #2 {
  %words = alloca [256 x i64], align 16
  %tensors = alloca [64 x ptr], align 16
  %count = call i64 @State.inputs(ptr %state)
  %outputs = call i64 @State.outputs(ptr %state)
  %none = call ptr @State.none(ptr %state)
  %all = add i64 %count, %outputs
  %fit = icmp ule i64 %all, 64
  br i1 %fit, label %describe, label %no

describe:
  %length = call i64 @describe(ptr %state, ptr %inputs, i64 %count, ptr %words, i64 0)
  %recipe = call ptr @look_up(ptr %state, ptr %words, i64 %length)
  %unknown = icmp eq ptr %recipe, null
  br i1 %unknown, label %no, label %allocate

allocate:
  %vectorcall = call ptr @State.vectorcall(ptr %state)
  %release = call ptr @State.decref(ptr %state)
  %owner = call ptr @Entry.owner(ptr %recipe)
  %make = call ptr @Entry.allocate(ptr %recipe)
  %made = call ptr %vectorcall(ptr %make, ptr null, i64 0, ptr null)
  call void %release(ptr %owner)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %no, label %join

join:
  call void @copy(ptr %inputs, i64 %count, ptr %tensors)
  %target = getelementptr ptr, ptr %tensors, i64 %count
  %unpacked = call i1 @unpack(ptr %state, ptr %made, ptr %target)
  br i1 %unpacked, label %try, label %miss

try:
  %longer = call i64 @describe(ptr %state, ptr %target, i64 %outputs, ptr %words, i64 %length)
  %outcome = call i32 @attempt(ptr %state, ptr %words, i64 %longer, ptr %none)
  switch i32 %outcome, label %raised [
    i32 0, label %launched
    i32 1, label %miss
  ]

launched:
  ret ptr %made

raised:
  call void %release(ptr %made)
  ret ptr null

miss:
  store ptr %made, ptr %target
  %slow = call ptr @State.miss(ptr %state)
  %names = call ptr @State.out_keywords(ptr %state)
  %other = call ptr %vectorcall(ptr %slow, ptr %tensors, i64 %count, ptr %names)
  call void %release(ptr %made)
  ret ptr %other

no:
  ret ptr null
}

; Launch what was remembered with this key. 0: done; 1: nothing was, or not with the globals of now; 2: an exception is set.
define internal i32 @attempt(ptr %state, ptr %words, i64 %length, ptr %stream.given) #2 {
  %stream = alloca ptr
  %entry = call ptr @look_up(ptr %state, ptr %words, i64 %length)
  %unknown = icmp eq ptr %entry, null
  br i1 %unknown, label %unknown.1, label %known

unknown.1:
  ret i32 1

known:
  %owner = call ptr @Entry.owner(ptr %entry)
  %release = call ptr @State.decref(ptr %state)
  %device.at = getelementptr i64, ptr %words, i64 1
  %device = load i64, ptr %device.at
  %has_stream = call i1 @stream_of(ptr %state, ptr %stream.given, i64 %device, ptr %stream)
  br i1 %has_stream, label %go, label %no_stream

no_stream:
  call void %release(ptr %owner)
  ret i32 1

go:
  %handle = load ptr, ptr %stream
  %status = call i32 @submit(ptr %state, ptr %entry, ptr %handle)
  %success = icmp eq i32 %status, 0
  br i1 %success, label %done, label %failed

done:
  call void %release(ptr %owner)
  ret i32 0

failed:
  call void @raise(ptr %state, ptr %entry, i32 %status)
  call void %release(ptr %owner)
  ret i32 2
}

; The entry with this key whose guards hold, with a reference to its owner; or null. Comparing guards may run Python code, and
; another thread may forget the entry while the lock is released: the owner keeps it.
define internal ptr @look_up(ptr %state, ptr %words, i64 %length) #1 {
  %refused = icmp eq i64 %length, 0
  br i1 %refused, label %no, label %search

search:
  %hash = call i64 @hash(ptr %words, i64 %length)
  %entry = call ptr @find(ptr %state, i64 %hash, ptr %words, i64 %length)
  %absent = icmp eq ptr %entry, null
  br i1 %absent, label %no, label %compare

compare:
  %owner = call ptr @Entry.owner(ptr %entry)
  %hold = call ptr @State.incref(ptr %state)
  call void %hold(ptr %owner)
  %valid = call i1 @holds(ptr %state, ptr %entry)
  br i1 %valid, label %yes, label %stale

yes:
  ret ptr %entry

stale:
  %release = call ptr @State.decref(ptr %state)
  call void %release(ptr %owner)
  ret ptr null

no:
  ret ptr null
}

; The tensors of a call with keywords in order into `tensors`: the inputs, which are those given by position, then the outputs,
; which are those of `out`: a tuple if there are several. That is the result of a launch, and is stored to `result`. Gives the
; stream that is named, None if none is, and null for a call with other keywords, without all outputs or with too many tensors.
define internal ptr @gather(ptr %state, ptr %arguments, ptr %keywords, ptr %tensors, ptr %result) #2 {
entry:
  %inputs = call i64 @State.inputs(ptr %state)
  %outputs = call i64 @State.outputs(ptr %state)
  %none = call ptr @State.none(ptr %state)
  %out = call ptr @State.out_name(ptr %state)
  %stream = call ptr @State.stream_name(ptr %state)
  %size_of = call ptr @State.tuple_size(ptr %state)
  %item_of = call ptr @State.tuple_item(ptr %state)
  %count = add i64 %inputs, %outputs
  %fit = icmp ule i64 %count, 64
  br i1 %fit, label %start, label %no

start:
  call void @copy(ptr %arguments, i64 %inputs, ptr %tensors)
  %target = getelementptr ptr, ptr %tensors, i64 %inputs
  %names = call i64 %size_of(ptr %keywords)
  br label %loop

loop:
  %i = phi i64 [ 0, %start ], [ %i.next, %next ]
  %missing = phi i64 [ %outputs, %start ], [ %missing.next, %next ]
  %chosen = phi ptr [ %none, %start ], [ %chosen.next, %next ]
  %more = icmp ult i64 %i, %names
  br i1 %more, label %name, label %end

name:
  %name.i = call ptr %item_of(ptr %keywords, i64 %i)
  %at = add i64 %inputs, %i
  %value.at = getelementptr ptr, ptr %arguments, i64 %at
  %value = load ptr, ptr %value.at
  %is_stream = icmp eq ptr %name.i, %stream
  br i1 %is_stream, label %next, label %maybe_out

maybe_out:
  %is_out = icmp eq ptr %name.i, %out
  br i1 %is_out, label %take, label %no

take:
  store ptr %value, ptr %result
  %unpacked = call i1 @unpack(ptr %state, ptr %value, ptr %target)
  br i1 %unpacked, label %next, label %no

next:
  %missing.next = phi i64 [ %missing, %name ], [ 0, %take ]
  %chosen.next = phi ptr [ %value, %name ], [ %chosen, %take ]
  %i.next = add i64 %i, 1
  br label %loop

end:
  %complete = icmp eq i64 %missing, 0
  br i1 %complete, label %yes, label %no

yes:
  ret ptr %chosen

no:
  ret ptr null
}

; The tensors of `out` to `tensors`. False if it is not one tensor, or a tuple of several, as the kernel has outputs.
define internal i1 @unpack(ptr %state, ptr %out, ptr %tensors) #1 {
  %outputs = call i64 @State.outputs(ptr %state)
  switch i64 %outputs, label %several [
    i64 0, label %no
    i64 1, label %one
  ]

one:
  store ptr %out, ptr %tensors
  ret i1 true

several:
  %tuple = call ptr @State.tuple_type(ptr %state)
  %size_of = call ptr @State.tuple_size(ptr %state)
  %item_of = call ptr @State.tuple_item(ptr %state)
  %type = call ptr @type_of(ptr %out)
  %is_tuple = icmp eq ptr %type, %tuple
  br i1 %is_tuple, label %measure, label %no

measure:
  %n = call i64 %size_of(ptr %out)
  %all = icmp eq i64 %n, %outputs
  br i1 %all, label %loop, label %no

loop:
  %i = phi i64 [ 0, %measure ], [ %i.next, %next ]
  %left = icmp ult i64 %i, %n
  br i1 %left, label %next, label %yes

next:
  %item = call ptr %item_of(ptr %out, i64 %i)
  %at = getelementptr ptr, ptr %tensors, i64 %i
  store ptr %item, ptr %at
  %i.next = add i64 %i, 1
  br label %loop

yes:
  ret i1 true

no:
  ret i1 false
}

; The stream to launch in: `given`, an int, or torch's current one on the device if it is None. False for what is neither.
define internal i1 @stream_of(ptr %state, ptr %given, i64 %device, ptr %stream) #1 {
  %none = call ptr @State.none(ptr %state)
  %current = icmp eq ptr %given, %none
  br i1 %current, label %ask, label %handle

ask:
  ; Only CUDA devices have streams here: 2 is kDLCUDA.
  store ptr null, ptr %stream
  %device.type = trunc i64 %device to i32
  %ordinal.wide = lshr i64 %device, 32
  %ordinal = trunc i64 %ordinal.wide to i32
  %cuda = icmp eq i32 %device.type, 2
  br i1 %cuda, label %torch, label %yes

torch:
  %current_stream = call ptr @State.current_stream(ptr %state)
  %status = call i32 %current_stream(i32 %device.type, i32 %ordinal, ptr %stream)
  %known = icmp eq i32 %status, 0
  br i1 %known, label %yes, label %failed

handle:
  %type = call ptr @type_of(ptr %given)
  %int = call ptr @State.int_type(ptr %state)
  %is_int = icmp eq ptr %type, %int
  br i1 %is_int, label %convert, label %no

convert:
  %as_pointer = call ptr @State.long_as_pointer(ptr %state)
  %value = call ptr %as_pointer(ptr %given)
  store ptr %value, ptr %stream
  %zero = icmp eq ptr %value, null
  br i1 %zero, label %doubt, label %yes

doubt:
  ; Null is a stream, or a number that is too large.
  %occurred = call ptr @State.occurred(ptr %state)
  %error = call ptr %occurred()
  %fine = icmp eq ptr %error, null
  br i1 %fine, label %yes, label %failed

yes:
  ret i1 true

failed:
  call void @clear_error(ptr %state)
  ret i1 false

no:
  ret i1 false
}

; True if the globals and the variables of closures that the kernel read are still the same objects.
define internal i1 @holds(ptr %state, ptr %entry) #1 {
start:
  %guards = call ptr @Entry.guards(ptr %entry)
  %n = call i64 @Entry.guard_count(ptr %entry)
  %get = call ptr @State.dict_get(ptr %state)
  %get_cell = call ptr @State.cell_get(ptr %state)
  %get_attribute = call ptr @State.getattr(ptr %state)
  br label %loop

loop:
  %i = phi i64 [ 0, %start ], [ %i.next, %same ]
  %more = icmp ult i64 %i, %n
  br i1 %more, label %guard, label %yes

guard:
  %guard.i = call ptr @Guard.item(ptr %guards, i64 %i)
  %namespace = call ptr @Guard.namespace(ptr %guard.i)
  %name = call ptr @Guard.name(ptr %guard.i)
  %expected = call ptr @Guard.expected(ptr %guard.i)
  %of_closure = icmp eq ptr %name, null
  br i1 %of_closure, label %cell, label %named

named:
  %is_attribute = call i64 @Guard.attribute(ptr %guard.i)
  %of_dict = icmp eq i64 %is_attribute, 0
  br i1 %of_dict, label %global, label %attribute

attribute:
  %own = call ptr %get_attribute(ptr %namespace, ptr %name)
  br label %new

global:
  %value = call ptr %get(ptr %namespace, ptr %name)
  %equal = icmp eq ptr %value, %expected
  br i1 %equal, label %equal.value, label %differs

equal.value:
  %absent = icmp eq ptr %value, null
  br i1 %absent, label %looked, label %same

looked:
  %occurred = call ptr @State.occurred(ptr %state)
  %error = call ptr %occurred()
  %no_error = icmp eq ptr %error, null
  br i1 %no_error, label %same, label %differs

cell:
  %inside = call ptr %get_cell(ptr %namespace)
  br label %new

new:
  %content = phi ptr [ %own, %attribute ], [ %inside, %cell ]
  %empty = icmp eq ptr %content, null
  br i1 %empty, label %differs, label %full

full:
  ; The reference is a new one, and not the last: the guard has one too, if it is this object.
  %equal.content = icmp eq ptr %content, %expected
  %drop = call ptr @State.decref(ptr %state)
  call void %drop(ptr %content)
  br i1 %equal.content, label %same, label %differs

same:
  %i.next = add i64 %i, 1
  br label %loop

differs:
  call void @clear_error(ptr %state)
  ret i1 false

yes:
  ret i1 true
}

; Launch in the context of the entry, without the lock. The result is the first status of the driver that is not 0.
define internal i32 @submit(ptr %state, ptr %entry, ptr %stream) #1 {
  %config = alloca %Config, align 8
  %previous = alloca ptr
  %prepared = call ptr @Entry.config.at(ptr %entry)
  %ctas = call i32 @Config.grid_x(ptr %prepared)
  %nothing = icmp eq i32 %ctas, 0
  br i1 %nothing, label %success, label %ready

success:
  ret i32 0

ready:
  call void @Config.copy(ptr %config, ptr %prepared)
  %stream.at = call ptr @Config.stream.at(ptr %config)
  store ptr %stream, ptr %stream.at
  %context = call ptr @Entry.context(ptr %entry)
  %function = call ptr @Entry.function(ptr %entry)
  %parameters = call ptr @Entry.parameters(ptr %entry)
  %run = call ptr @State.launch_kernel(ptr %state)
  %get = call ptr @State.get_context(ptr %state)
  %push = call ptr @State.push_context(ptr %state)
  %pop = call ptr @State.pop_context(ptr %state)
  %restore = call ptr @State.restore_thread(ptr %state)
  %save = call ptr @State.save_thread(ptr %state)
  %thread = call ptr %save()
  %got = call i32 %get(ptr %previous)
  %has = icmp eq i32 %got, 0
  br i1 %has, label %compare, label %end

compare:
  %current = load ptr, ptr %previous
  %same = icmp eq ptr %current, %context
  br i1 %same, label %here, label %elsewhere

here:
  %launched.here = call i32 %run(ptr %config, ptr %function, ptr %parameters, ptr null)
  br label %end

elsewhere:
  %pushed = call i32 %push(ptr %context)
  %entered = icmp eq i32 %pushed, 0
  br i1 %entered, label %inside, label %end

inside:
  %launched.there = call i32 %run(ptr %config, ptr %function, ptr %parameters, ptr null)
  %popped = call i32 %pop(ptr %previous)
  %fine = icmp eq i32 %launched.there, 0
  %first = select i1 %fine, i32 %popped, i32 %launched.there
  br label %end

end:
  %status = phi i32 [ %got, %ready ], [ %launched.here, %here ], [ %pushed, %elsewhere ], [ %first, %inside ]
  call void %restore(ptr %thread)
  ret i32 %status
}

; Call error(status, launch), which raises.
define internal void @raise(ptr %state, ptr %entry, i32 %status) #2 {
  %arguments = alloca [2 x ptr], align 16
  %wide = zext i32 %status to i64
  %make = call ptr @State.long_from(ptr %state)
  %number = call ptr %make(i64 %wide)
  %failed = icmp eq ptr %number, null
  br i1 %failed, label %end, label %tell

tell:
  %launch = call ptr @Entry.launch(ptr %entry)
  %second = getelementptr ptr, ptr %arguments, i64 1
  store ptr %number, ptr %arguments
  store ptr %launch, ptr %second
  %vectorcall = call ptr @State.vectorcall(ptr %state)
  %error = call ptr @State.error(ptr %state)
  %result = call ptr %vectorcall(ptr %error, ptr %arguments, i64 2, ptr null)
  %release = call ptr @State.decref(ptr %state)
  call void %release(ptr %number)
  %raised = icmp eq ptr %result, null
  br i1 %raised, label %end, label %returned

returned:
  call void %release(ptr %result)
  br label %end

end:
  ret void
}

; ---- keys ----------------------------------------------------------------------------------------------------------------

; The words that tell these tensors from all others, behind the `used` ones that are there already; gives how many there are
; then. 0 where an argument is no plain tensor, or for more than 256. For each: address, device, dtype and number of dimensions,
; shape, strides.
define internal i64 @describe(ptr %state, ptr %tensors, i64 %count, ptr %words, i64 %first) #2 {
entry:
  %view = alloca %View, align 8
  %fill = call ptr @State.view_of(ptr %state)
  br label %loop

loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %next ]
  %used = phi i64 [ %first, %entry ], [ %used.next, %next ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %tensor, label %end

tensor:
  %object.at = getelementptr ptr, ptr %tensors, i64 %i
  %object = load ptr, ptr %object.at
  %plain = call i1 @is_plain(ptr %state, ptr %object)
  br i1 %plain, label %export, label %no

export:
  %status = call i32 %fill(ptr %object, ptr %view)
  %filled = icmp eq i32 %status, 0
  br i1 %filled, label %measure, label %failed

measure:
  ; A complex tensor may hold the conjugate of its values, and no kernel takes one: 5 is kDLComplex.
  %dtype.short = call i32 @View.dtype(ptr %view)
  %code = and i32 %dtype.short, 255
  %complex = icmp eq i32 %code, 5
  br i1 %complex, label %no, label %real

real:
  %rank.short = call i32 @View.rank(ptr %view)
  %rank = zext i32 %rank.short to i64
  %dims = shl i64 %rank, 1
  %needed = add i64 %dims, 3
  %used.next = add i64 %used, %needed
  %fits = icmp ule i64 %used.next, 256
  br i1 %fits, label %write, label %no

write:
  %base = call i64 @View.data(ptr %view)
  %offset = call i64 @View.offset(ptr %view)
  %address = add i64 %base, %offset
  %word.0 = getelementptr i64, ptr %words, i64 %used
  store i64 %address, ptr %word.0
  %device = call i64 @View.device(ptr %view)
  %word.1 = getelementptr i64, ptr %word.0, i64 1
  store i64 %device, ptr %word.1
  %dtype = zext i32 %dtype.short to i64
  %rank.high = shl i64 %rank, 32
  %kind = or i64 %dtype, %rank.high
  %word.2 = getelementptr i64, ptr %word.0, i64 2
  store i64 %kind, ptr %word.2
  %word.3 = getelementptr i64, ptr %word.0, i64 3
  %shape = call ptr @View.shape(ptr %view)
  call void @copy(ptr %shape, i64 %rank, ptr %word.3)
  %word.s = getelementptr i64, ptr %word.3, i64 %rank
  %strides = call ptr @View.strides(ptr %view)
  %contiguous = icmp eq ptr %strides, null
  br i1 %contiguous, label %unwritten, label %written

unwritten:
  call void @pack(i64 %rank, ptr %word.3, ptr %word.s)
  br label %next

written:
  call void @copy(ptr %strides, i64 %rank, ptr %word.s)
  br label %next

next:
  %i.next = add i64 %i, 1
  br label %loop

end:
  ret i64 %used

failed:
  call void @clear_error(ptr %state)
  ret i64 0

no:
  ret i64 0
}

; True for a torch.Tensor or Parameter that needs no gradient and whose memory holds its values as they are.
define internal i1 @is_plain(ptr %state, ptr %object) #1 {
  %type = call ptr @type_of(ptr %object)
  %tensor = call ptr @State.tensor_type(ptr %state)
  %parameter = call ptr @State.parameter_type(ptr %state)
  %is_tensor = icmp eq ptr %type, %tensor
  %is_parameter = icmp eq ptr %type, %parameter
  %known = or i1 %is_tensor, %is_parameter
  br i1 %known, label %look, label %no

look:
  %impl.offset = call i64 @State.impl(ptr %state)
  %blind = icmp eq i64 %impl.offset, 0
  br i1 %blind, label %ask_lazy, label %peek

peek:
  %impl.at = getelementptr i8, ptr %object, i64 %impl.offset
  %impl = load ptr, ptr %impl.at
  %dead = icmp eq ptr %impl, null
  br i1 %dead, label %no, label %peek_keys

peek_keys:
  %keys.offset = call i64 @State.keys(ptr %state)
  %keys.at = getelementptr i8, ptr %impl, i64 %keys.offset
  %keys = load i64, ptr %keys.at
  %lazy = call i64 @State.lazy(ptr %state)
  %lazy.keys = and i64 %keys, %lazy
  %eager = icmp eq i64 %lazy.keys, 0
  br i1 %eager, label %peek_autograd, label %no

peek_autograd:
  %autograd.offset = call i64 @State.autograd(ptr %state)
  %autograd.at = getelementptr i8, ptr %impl, i64 %autograd.offset
  %autograd = load ptr, ptr %autograd.at
  %untouched = icmp eq ptr %autograd, null
  br i1 %untouched, label %yes, label %ask_autograd

ask_lazy:
  %is_neg = call ptr @State.is_neg(ptr %state)
  %negative = call i1 @answers_false(ptr %state, ptr %is_neg, ptr %object)
  br i1 %negative, label %ask_autograd, label %no

ask_autograd:
  %name = call ptr @State.requires_grad_name(ptr %state)
  %get = call ptr @State.getattr(ptr %state)
  %grad = call ptr %get(ptr %object, ptr %name)
  %free = call i1 @is_false(ptr %state, ptr %grad)
  ret i1 %free

yes:
  ret i1 true

no:
  ret i1 false
}

; True if method(object) is False.
define internal i1 @answers_false(ptr %state, ptr %method, ptr %object) #1 {
  %argument = alloca ptr
  store ptr %object, ptr %argument
  %vectorcall = call ptr @State.vectorcall(ptr %state)
  %answer = call ptr %vectorcall(ptr %method, ptr %argument, i64 1, ptr null)
  %result = call i1 @is_false(ptr %state, ptr %answer)
  ret i1 %result
}

; True if `answer`, a new reference or null with an exception, is False. Takes the reference and the exception.
define internal i1 @is_false(ptr %state, ptr %answer) #1 {
  %failed = icmp eq ptr %answer, null
  br i1 %failed, label %error, label %compare

error:
  call void @clear_error(ptr %state)
  ret i1 false

compare:
  %false = call ptr @State.false(ptr %state)
  %release = call ptr @State.decref(ptr %state)
  call void %release(ptr %answer)
  %same = icmp eq ptr %answer, %false
  ret i1 %same
}

; Strides of a contiguous tensor of this shape.
define internal void @pack(i64 %rank, ptr %shape, ptr %strides) #2 {
entry:
  br label %loop

loop:
  %left = phi i64 [ %rank, %entry ], [ %i, %next ]
  %stride = phi i64 [ 1, %entry ], [ %stride.next, %next ]
  %end = icmp eq i64 %left, 0
  br i1 %end, label %done, label %next

next:
  %i = sub i64 %left, 1
  %to = getelementptr i64, ptr %strides, i64 %i
  store i64 %stride, ptr %to
  %from = getelementptr i64, ptr %shape, i64 %i
  %extent = load i64, ptr %from
  %stride.next = mul i64 %stride, %extent
  br label %loop

done:
  ret void
}

; Sum of all words, each times an odd number of its own (the additions wait for each other, the products do not), well mixed.
define internal i64 @hash(ptr %words, i64 %length) #1 {
entry:
  br label %loop

loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %next ]
  %sum = phi i64 [ %length, %entry ], [ %sum.next, %next ]
  %factor = phi i64 [ -7046029254386353131, %entry ], [ %factor.next, %next ]
  %more = icmp ult i64 %i, %length
  br i1 %more, label %next, label %mix

next:
  %at = getelementptr i64, ptr %words, i64 %i
  %word = load i64, ptr %at
  %product = mul i64 %word, %factor
  %sum.next = add i64 %sum, %product
  %factor.next = add i64 %factor, -4417276706812531890
  %i.next = add i64 %i, 1
  br label %loop

mix:
  ; Products carry upwards only: without this the low bits would know nothing of the high ones.
  %high = lshr i64 %sum, 32
  %folded = xor i64 %sum, %high
  %mixed = mul i64 %folded, -7046029254386353131
  %top = lshr i64 %mixed, 32
  %hash = xor i64 %mixed, %top
  ret i64 %hash
}

; The entry with this key, or null.
define internal ptr @find(ptr %state, i64 %hash, ptr %words, i64 %length) #1 {
start:
  %slots = call ptr @State.slots(ptr %state)
  %mask = call i64 @State.mask(ptr %state)
  br label %probe

probe:
  %position = phi i64 [ %hash, %start ], [ %position.next, %other ]
  %index = and i64 %position, %mask
  %slot = call ptr @Slot.item(ptr %slots, i64 %index)
  %entry = call ptr @Slot.entry(ptr %slot)
  %free = icmp eq ptr %entry, null
  br i1 %free, label %absent, label %taken

taken:
  %found.hash = call i64 @Slot.hash(ptr %slot)
  %same_hash = icmp eq i64 %found.hash, %hash
  br i1 %same_hash, label %measure, label %other

measure:
  %found.length = call i64 @Entry.length(ptr %entry)
  %same_length = icmp eq i64 %found.length, %length
  br i1 %same_length, label %begin, label %other

begin:
  %key = call ptr @Entry.words(ptr %entry)
  br label %compare

compare:
  %i = phi i64 [ 0, %begin ], [ %i.next, %equal ]
  %more = icmp ult i64 %i, %length
  br i1 %more, label %word, label %present

word:
  %key.at = getelementptr i64, ptr %key, i64 %i
  %key.i = load i64, ptr %key.at
  %word.at = getelementptr i64, ptr %words, i64 %i
  %word.i = load i64, ptr %word.at
  %same = icmp eq i64 %key.i, %word.i
  br i1 %same, label %equal, label %other

equal:
  %i.next = add i64 %i, 1
  br label %compare

other:
  %position.next = add i64 %index, 1
  br label %probe

present:
  ret ptr %entry

absent:
  ret ptr null
}

; ---- small things --------------------------------------------------------------------------------------------------------

; bytes.__basicsize__ - 1 is where the content of a bytes object begins (launcher.py checks it).
define internal ptr @state_of(ptr %self) #1 {
  %at = getelementptr i8, ptr %self, i64 32
  %state = load ptr, ptr %at
  ret ptr %state
}

; PyObject.ob_type
define internal ptr @type_of(ptr %object) #1 {
  %at = getelementptr i8, ptr %object, i64 8
  %type = load ptr, ptr %at
  ret ptr %type
}

define internal ptr @new_none(ptr %state) #1 {
  %none = call ptr @State.none(ptr %state)
  %hold = call ptr @State.incref(ptr %state)
  call void %hold(ptr %none)
  ret ptr %none
}

define internal void @clear_error(ptr %state) #1 {
  %clear = call ptr @State.clear_error(ptr %state)
  call void %clear()
  ret void
}

; `n` words from one place to another.
define internal void @copy(ptr %from, i64 %n, ptr %to) #1 {
entry:
  br label %loop

loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %next ]
  %more = icmp ult i64 %i, %n
  br i1 %more, label %next, label %done

next:
  %from.at = getelementptr i64, ptr %from, i64 %i
  %word = load i64, ptr %from.at
  %to.at = getelementptr i64, ptr %to, i64 %i
  store i64 %word, ptr %to.at
  %i.next = add i64 %i, 1
  br label %loop

done:
  ret void
}

; "no-builtins": a loop is not turned into a call of memcpy, which is not here.
attributes #0 = { nounwind "no-builtins" "frame-pointer"="all" }
attributes #1 = { nounwind alwaysinline "no-builtins" }
attributes #2 = { nounwind noinline "no-builtins" "frame-pointer"="all" }
