"""One tcgen05.mma: its operands are checked when it is issued, and multiplied when the tensor core comes to it (PTX 9.7.16.10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.execution.engines import AsyncWork
from tilec.backend.emulator.faults import FaultKind, UnsupportedInstruction
from tilec.backend.emulator.matrices.layout import SPAN, Descriptor, Major, chunks, decode_tcgen05
from tilec.backend.emulator.matrices.values import expanded
from tilec.backend.emulator.tcgen05 import block_scale
from tilec.backend.emulator.tcgen05.accumulate import accumulate
from tilec.backend.emulator.tcgen05.arguments import Arguments
from tilec.backend.emulator.tcgen05.layouts import Block, accumulator
from tilec.backend.emulator.tcgen05.operands import bits_of, from_shared, from_tensor_memory
from tilec.backend.emulator.tcgen05.pipeline import Operation, Pipeline, once, pair_of, queue_of
from tilec.backend.emulator.tcgen05.region import LaneIndex, Region, bits, index_of, members
from tilec.backend.emulator.tcgen05.sparse import Metadata, group_codes, metadata, metadata_region, wrong_code
from tilec.backend.emulator.tcgen05.tensor_memory import Access, Engine, TensorMemory

if TYPE_CHECKING:
    from tilec.backend.emulator.execution.cta import Cta
    from tilec.backend.emulator.execution.lanes import Lanes

_NAME = "tcgen05.mma"
_PACKED = ("mxf4", "mxf4nvf4")
_A_COLUMNS = 8
"""Columns of a row of A in tensor memory: 32 bytes, also of a sparse A, of which half is held."""


class Product:
    """An issued product."""

    def __init__(self, arguments: Arguments, lanes: Lanes, lane: int) -> None:
        """Checks everything that can be known at issue; faults as the thread at position `lane`."""
        self.arguments = arguments
        self._lanes = lanes
        self._lane = lane
        self._place = lanes.place(lane)
        d = self.descriptor = arguments.descriptor
        self.ctas = pair_of(lanes, d.variant.group)
        self.memories = [cta.part(TensorMemory) for cta in self.ctas]
        blocks = accumulator(d, arguments.d >> 16)
        if isinstance(blocks, str):
            lanes.fault(
                FaultKind.TENSOR_MEMORY,
                f"D of M = {d.m} at lane {arguments.d >> 16} of tensor memory; with this shape it begins at lane {blocks}",
                lane,
            )
        self.blocks: tuple[Block, ...] = blocks
        self.column = arguments.d & 0xFFFF
        rows = d.m // d.variant.group
        self.a_chunks = (
            None if arguments.a_in_tensor_memory else self._matrix("A", arguments.a, d.a, d.a_transposed, rows)
        )
        self.metadata = self._metadata() if d.variant.sparse else None
        columns = d.n // d.variant.group
        self.b_chunks = self._matrix("B", arguments.b, d.b, d.b_transposed, columns)

    def issue(self) -> Operation:
        """Begin all accesses and hand the work to the tensor core."""
        work = AsyncWork(
            _NAME,
            self._lanes.cta,
            self._place,
            once(self._multiply),
            queue_of(self._lanes.cta, self.descriptor.variant.group),
        )
        for cta in self.ctas:
            cta.shared.begin_read(work, self.b_chunks.ravel())
            if self.a_chunks is not None:
                cta.shared.begin_read(work, self.a_chunks.ravel())
        accesses = [*self._reads(), *self._writes()]
        for memory, access in accesses:
            memory.begin(access)
        return Operation(work, tuple(cta.shared for cta in self.ctas), tuple(accesses))

    # Operands in shared memory.

    def _matrix(self, name: str, bits64: int, type: str, transposed: bool, extent: int) -> NDArray[np.intp]:
        """The chunks of A or B in each CTA."""
        descriptor = decode_tcgen05(bits64)
        if isinstance(descriptor, str):
            self._refuse(f"{name}: {descriptor}")
        if transposed:
            self._check_transposed(name, descriptor, type)
        d = self.descriptor
        width = bits_of(type, packed=d.variant.kind in _PACKED)
        k = d.k // 2 if name == "A" and d.variant.sparse else d.k
        major: Major = "MN" if transposed else "K"
        if major == "K" and descriptor.swizzle != "none" and k * width // 8 > SPAN[descriptor.swizzle]:
            raise UnsupportedInstruction(
                self._lanes.machine.file,
                self._lanes.instruction,
                f"the emulator does not know how {name} continues behind the {SPAN[descriptor.swizzle]} bytes of its swizzle",
            )
        return chunks(descriptor, major, extent, k, width)

    def _check_transposed(self, name: str, descriptor: Descriptor, type: str) -> None:
        if type == "tf32" and descriptor.swizzle != "128B_ATOM_32B":
            self._refuse(
                f"{name} is tf32 and transposed, which needs swizzle 1 (128B with 32-byte atoms) in its matrix descriptor, not "
                f"{descriptor.swizzle}"
            )
        if type != "tf32" and descriptor.swizzle == "128B_ATOM_32B":
            self._refuse(
                f"{name} is {type} and transposed, which swizzle 1 (128B with 32-byte atoms) of its matrix descriptor is not for; "
                "it is one of 0 (none), 2 (128B), 4 (64B) and 6 (32B)"
            )

    def _refuse(self, message: str) -> NoReturn:
        self._lanes.fault(FaultKind.DESCRIPTOR, message, self._lane)

    # Operands in tensor memory.

    def _metadata(self) -> Metadata:
        found = metadata(self.descriptor, self.arguments.metadata & 0xFFFF)
        if isinstance(found, str):
            raise UnsupportedInstruction(self._lanes.machine.file, self._lanes.instruction, found)
        return found

    def _check_codes(self, codes: NDArray[np.uint32]) -> None:
        wrong = wrong_code(codes, self.descriptor.variant.kind)
        if wrong is not None:
            self._lanes.fault(
                FaultKind.ILLEGAL,
                f"sparsity metadata 0b{wrong[1]:04b} of row {wrong[0]} of A have no meaning",
                self._lane,
            )

    def _reads(self) -> list[tuple[TensorMemory, Access]]:
        """A, scale factors and metadata in tensor memory, checked."""
        arguments = self.arguments
        found: list[tuple[TensorMemory, Region]] = []
        if arguments.a_in_tensor_memory:
            self._check_lane("A", arguments.a, arguments.d >> 16)
            for memory, lanes in zip(self.memories, self._lanes_of_blocks(), strict=True):
                found.append((memory, Region(lanes, bits(arguments.a & 0xFFFF, _A_COLUMNS))))
        if arguments.scales is not None:
            for name, address, rows in zip("AB", arguments.scales, self._scale_rows(), strict=True):
                self._check_lane(f"the scale factors of {name}", address, 0)
                found += [(m, r) for m in self.memories for r in block_scale.regions(address & 0xFFFF, rows)]
        if self.metadata is not None:
            self._check_lane("the sparsity metadata", arguments.metadata, arguments.d >> 16)
            for memory, lanes in zip(self.memories, self._lanes_of_blocks(), strict=True):
                found.append((memory, metadata_region(self.metadata, lanes)))
        for memory, region in found:
            memory.check_product_reads(region, _NAME, self._place)
        return [(memory, Access(Engine.MMA, region, False, self._place)) for memory, region in found]

    def _check_lane(self, name: str, address: int, wanted: int) -> None:
        if address >> 16 != wanted:
            self._lanes.fault(
                FaultKind.TENSOR_MEMORY,
                f"{name} at lane {address >> 16} of tensor memory; with D of M = {self.descriptor.m} at lane "
                f"{self.arguments.d >> 16} it begins at lane {wanted}",
                self._lane,
            )

    def _lanes_of_blocks(self) -> list[int]:
        """The lanes that D takes in each CTA."""
        found = [0] * len(self.ctas)
        for block in self.blocks:
            found[block.cta] |= block.lanes
        return found

    def _writes(self) -> list[tuple[TensorMemory, Access]]:
        """D, checked."""
        arguments, d = self.arguments, self.descriptor
        key = (d.variant.group, d.variant.weights, d.m, d.n, d.k, arguments.d)
        width = self.blocks[0].columns.stop - self.blocks[0].columns.start
        found: list[tuple[TensorMemory, Access]] = []
        for cta, (memory, lanes) in enumerate(zip(self.memories, self._lanes_of_blocks(), strict=True)):
            region = Region(lanes & ~arguments.kept[cta], bits(self.column, width))
            if not region.lanes:
                continue
            memory.check_engine_writes(region, key, _NAME, self._place)
            if arguments.accumulate:
                memory.check_written(region, f"{_NAME} accumulates onto", self._place)
            found.append((memory, Access(Engine.MMA, region, True, self._place, accumulator=key)))
        return found

    # The product.

    def _multiply(self) -> None:
        d = self.descriptor
        right = self._b()
        for at, cta in enumerate(self.ctas):
            left = (
                None if self.a_chunks is None else self._signed(self._from_shared(cta, self.a_chunks, "A"), d.a_negated)
            )
            for block in self.blocks:
                if block.cta == at:
                    self._multiply_block(at, block, left, right)

    def _multiply_block(
        self, at: int, block: Block, left: NDArray[np.float64] | None, right: NDArray[np.float64]
    ) -> None:
        d, arguments, memory = self.descriptor, self.arguments, self.memories[at]
        lanes = index_of(block.lanes)
        if left is None:
            columns = slice(arguments.a & 0xFFFF, (arguments.a & 0xFFFF) + _A_COLUMNS)
            packed = d.variant.kind in _PACKED
            left = self._signed(from_tensor_memory(memory.cells[lanes, columns], d.a, packed=packed), d.a_negated)
        if self.metadata is not None:
            codes = group_codes(self.metadata, memory.cells[lanes])
            self._check_codes(codes)
            left = expanded(left, codes, one_of_two=d.variant.kind == "tf32")
        right = right[block.columns]
        if arguments.scales is not None:
            first, second = self._factors(memory, block, arguments.scales)
            left, right = block_scale.scaled(left, first), block_scale.scaled(right, second)
        product = left @ right.T
        first = self.column + block.column
        self._add(memory.cells, lanes, slice(first, first + product.shape[1]), product, arguments.kept[at], block)

    def _add(
        self,
        cells: NDArray[np.uint32],
        lanes: LaneIndex,
        columns: slice,
        product: NDArray[np.float64],
        kept: int,
        block: Block,
    ) -> None:
        arguments = self.arguments
        if kept & block.lanes:
            changed = members(block.lanes & ~kept)
            lanes, product = changed, product[np.isin(members(block.lanes), changed)]
        held = cells[lanes, columns] if arguments.accumulate else None
        cells[lanes, columns] = accumulate(
            self.descriptor.d, product, held, shift=arguments.shift, saturate=self.descriptor.saturate
        )

    def _b(self) -> NDArray[np.float64]:
        """B as (n, k), from both CTAs."""
        d = self.descriptor
        parts = [self._from_shared(cta, self.b_chunks, "B") for cta in self.ctas]
        whole = self._signed(parts[0] if len(parts) == 1 else np.concatenate(parts), d.b_negated)
        if self.arguments.zeroed:
            whole[index_of(self.arguments.zeroed)] = 0.0
        return whole

    def _from_shared(self, cta: Cta, found: NDArray[np.intp], name: str) -> NDArray[np.float64]:
        d = self.descriptor
        type, transposed = (d.a, d.a_transposed) if name == "A" else (d.b, d.b_transposed)
        packed = d.variant.kind in _PACKED
        return from_shared(cta.shared.data, found, "MN" if transposed else "K", type, packed=packed)

    @staticmethod
    def _signed(matrix: NDArray[np.float64], negated: bool) -> NDArray[np.float64]:
        return -matrix if negated else matrix

    # Scale factors.

    def _scale_rows(self) -> tuple[int, int]:
        """Rows of scale factors in each CTA: of A, and of B. With two blocks of D in a CTA each partition has half of those of B."""
        d = self.descriptor
        blocks = len(self.blocks) // len(self.ctas)
        return d.m // d.variant.group, d.n // blocks

    def _factors(
        self, memory: TensorMemory, block: Block, scales: tuple[int, int]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The factors of the rows of A and the columns of B that a block needs."""
        d = self.descriptor
        found: list[NDArray[np.float64]] = []
        ids = (d.a_scale_id, d.b_scale_id)
        for name, address, rows, first in zip("AB", scales, self._scale_rows(), ids, strict=True):
            copies = block_scale.words(memory.cells, address & 0xFFFF, rows)
            partitions = [p for p in range(4) if block.lanes >> 32 * p & 1]
            used = copies[partitions]
            picked = [block_scale.factors(copy, d.scale_type, first, self.arguments.factors) for copy in used]
            if any(not np.array_equal(picked[0], other, equal_nan=True) for other in picked[1:]):
                memory_fault = (
                    f"the scale factors of {name} differ between the partitions of 32 lanes, which must hold copies"
                )
                self._lanes.fault(
                    FaultKind.TENSOR_MEMORY, memory_fault, self._lane, "copy them with tcgen05.cp...warpx4"
                )
            found.append(picked[0])
        return found[0], found[1]


def issue(arguments: Arguments, lanes: Lanes, lane: int) -> None:
    """Issue a product for the thread at position `lane`."""
    operation = Product(arguments, lanes, lane).issue()
    lanes.cta.part(Pipeline).add(int(lanes.threads[lane]), operation)
    lanes.machine.engines.submit(operation.work)
