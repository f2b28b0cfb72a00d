"""HiveD in a core that is built anew: which of its cells the jobs are in that run already.

A guaranteed job is in cells of its virtual cluster. Which ones is noted per job; where that is not known, because HiveD did
not start the job or nobody kept the notes, they are looked for: cells around the job's GPUs that its virtual cluster owns,
does not use, and can have there without anybody else losing what he owns. Where there are none, the job runs on as an
opportunistic one does: on GPUs that are nobody's cells, until it ends or a guaranteed job needs its own cells back; then it
waits as the guaranteed job that it is. So are jobs that share a GPU, which cells can't say. One that is not preemptible stays
where it is all the same, and who needs its GPUs waits: HiveD would not have started it there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from fairlead.kernels.columns import G_ROWS, I8, K_LEVEL, Desk
from fairlead.policy.base import BESIDE, OWN_DOING, Memo
from fairlead.policy.hived.algorithm import Hived
from fairlead.policy.hived.cells import OPPORTUNISTIC, PhysicalCell, VirtualCell, unbound_child
from fairlead.policy.hived.layout import lay_out
from fairlead.policy.hived.orders import note_orders, put_back
from fairlead.policy.hived.setup import ClassOfJobs, Setup
from fairlead.policy.hived.tables import (
    H_JOBS,
    H_LEVEL_COUNT,
    H_OWNED,
    H_ROW,
    H_VC_COUNT,
    O_NPRE,
    O_PRE,
    OWNED_SIZE,
    X_ALSO,
    X_BOUND,
    X_GPUS,
    X_LEAF0,
    X_LEVEL,
    X_LINK,
    X_OWNER,
    X_ROOT,
    X_SLOT,
)
from fairlead.state.view import JobView, View

NO_CELL = -1.0


@dataclass(frozen=True)
class Seat:
    """A GPU of a job, and the virtual one that it is: which preassigned cell of which level, and which GPU of that."""

    gpu: int
    level: int  #: NO_CELL: the job runs as an opportunistic one
    cell: int
    position: int


# -- noting ------------------------------------------------------------------------------------------------------------------


def recall(view: View, desk: Desk) -> dict[int, Memo]:
    """Per job the seats of its GPUs, in the order in which it has them."""
    t, x = desk.ints, desk.cells
    roots = dict(_preassigned(x))
    found = {}
    for one in view.running():
        memo: list[float] = []
        for gpu in _gpus_of(t, x, one.job):
            memo += [gpu, *(_seat(t, x, roots, gpu) if t[gpu, X_SLOT] >= 0 else (NO_CELL, NO_CELL, NO_CELL))]
        found[one.job] = tuple(float(number) for number in memo)
    news = any(kind not in OWN_DOING for kind, _ in view.happened(int(x[H_ROW])))
    found[BESIDE] = note_orders(desk, news)
    return found


def _gpus_of(t: I8, x: I8, job: int) -> Iterator[int]:
    """Nothing where it is not known any more who has them: something has happened that HiveD has not been told of."""
    gpu = int(x[x[H_JOBS] + job])
    while gpu >= 0 and job in (t[gpu, X_OWNER], t[gpu, X_ALSO]):
        yield gpu
        gpu = int(t[gpu, X_LINK])


def _preassigned(x: I8) -> Iterator[tuple[int, int]]:
    """Each preassigned cell, and which one of its level it is in its virtual cluster."""
    for record in range(int(x[H_VC_COUNT] * x[H_LEVEL_COUNT])):
        at = int(x[H_OWNED]) + record * OWNED_SIZE
        cells = x[x[at + O_PRE] : x[at + O_PRE] + x[at + O_NPRE]].tolist()
        yield from ((cell, number) for number, cell in enumerate(cells))


def _seat(t: I8, x: I8, roots: Mapping[int, int], gpu: int) -> tuple[float, float, float]:
    virtual = int(t[gpu, X_BOUND])
    root = int(t[virtual, X_ROOT])
    first = int(t[root, X_LEAF0])
    position = x[first : first + int(t[root, X_GPUS])].tolist().index(virtual)
    return float(t[root, X_LEVEL]), float(roots[root]), float(position)


# -- taking over -------------------------------------------------------------------------------------------------------------


def take_over(view: View, setup: Setup, memos: Mapping[int, Memo]) -> Desk:
    def settle(fresh: Callable[[], Hived]) -> tuple[Hived, Mapping[int, list[int]]]:
        """Where cells must be looked for, what comes first matters; some ways are tried, and the best is taken."""
        best = None
        for way in WAYS:
            one = _Takeover(view, setup, fresh(), memos, way)
            one.run()
            if best is None or one.without_cells < best.without_cells:
                best = one
            if best.without_cells == 0:
                break
        assert best is not None
        return best.hived, best.held

    desk = lay_out(view, setup, settle)
    _, _, q = view.columns()
    desk.cells[H_ROW] = q.counter[G_ROWS]
    if BESIDE in memos:
        put_back(desk, memos[BESIDE])
    return desk


def _seats(memo: Memo) -> list[Seat]:
    numbers = [int(number) for number in memo]
    return [Seat(*numbers[at : at + 4]) for at in range(0, len(numbers), 4)]


@dataclass(frozen=True)
class Way:
    """To look for cells: the jobs with most GPUs first, or in order; in the largest cells first, or in the smallest."""

    large_jobs_first: bool
    large_cells_first: bool


WAYS = (Way(False, False), Way(True, False), Way(True, True), Way(False, True))


class _Takeover:
    def __init__(self, view: View, setup: Setup, hived: Hived, memos: Mapping[int, Memo], way: Way) -> None:
        self.view, self.setup, self.hived, self.memos, self.way = view, setup, hived, memos, way
        self.held: dict[int, list[int]] = {}  #: the GPUs of each job, in its order
        self.without_cells = 0  #: guaranteed jobs that are to run on as opportunistic ones
        self.classes = {one.number: one for one in setup.classes}
        self.gpus: dict[int, PhysicalCell] = {}
        for chain in hived.chains.values():
            for node in chain.all[chain.node_level]:
                for gpu in node.leaves():
                    self.gpus[setup.gpu_ids[node.address, gpu.index]] = gpu
        self.sitting = Counter(gpu for job in view.running() for gpu in job.gpu_ids)

    def run(self) -> None:
        """The cells are held by who runs there. A higher priority goes first; who is opportunistic takes nobody's cell."""

        def rank(one: tuple[int, JobView]) -> tuple[int, bool, int, int]:
            priority, job = one
            size = len(job.gpu_ids) if self.way.large_jobs_first else 0
            return -priority, job.job not in self.memos, -size, job.job

        for priority, job in sorted(((self._priority(job), job) for job in self.view.running()), key=rank):
            self.held[job.job] = self._settle(job, priority)

    def _class(self, job: JobView) -> ClassOfJobs:
        return self.classes[self.view.own_class(job.job)]

    def _priority(self, job: JobView) -> int:
        _, jobs, _ = self.view.columns()
        return self.setup.priority(self._class(job), int(jobs.ints[K_LEVEL, job.job]))

    def _settle(self, job: JobView, priority: int) -> list[int]:
        vc = self._class(job).vc
        if priority >= 0 and self._class(job).fixed:
            priority = self.setup.top  # so that nobody preempts it
        seats = _seats(self.memos.get(job.job, ()))
        if sorted(seat.gpu for seat in seats) != sorted(job.gpu_ids):
            seats = []  # it has been started anew since
        order = [seat.gpu for seat in seats] or sorted(job.gpu_ids)
        alone = all(self.sitting[gpu] == 1 for gpu in order)
        known_foreign = any(seat.level < 0 for seat in seats)
        if priority < 0 or not alone or known_foreign or not self._take_cells(order, seats, priority, vc):
            self.without_cells += priority >= 0 and alone and not known_foreign
            for number in order:
                if self.gpus[number].priority != OPPORTUNISTIC:
                    self.hived.take(self.gpus[number], None, OPPORTUNISTIC, vc)
        return order

    def _take_cells(self, order: list[int], seats: list[Seat], priority: int, vc: str) -> bool:
        """Cells of the virtual cluster for all these GPUs, or for none of them."""
        taken: list[PhysicalCell] = []
        noted = {seat.gpu: seat for seat in seats}
        for number in order:
            gpu = self.gpus[number]
            fits = False
            for virtual in self._candidates(gpu, vc, noted.get(number), order):
                broken = self.hived.take(gpu, virtual, priority, vc)
                # it may stand where buddy allocation would not have put it, and split what an owner needs whole
                fits = not broken and min(self.hived.chains[gpu.chain].spare()) >= 0
                if fits:
                    break
                self.hived.free(gpu, vc)
            if not fits:
                for one in reversed(taken):
                    self.hived.free(one, vc)
                return False
            taken.append(gpu)
        return True

    def _candidates(self, gpu: PhysicalCell, vc: str, noted: Seat | None, order: list[int]) -> Iterator[VirtualCell]:
        """Virtual GPUs that it could be: the one that was noted; one in the cell around it that is bound; one in a cell that
        its virtual cluster owns and does not use, the smallest that is around the job's GPUs on this node first."""
        around = gpu
        while around.bound is None and around.parent is not None:
            around = around.parent
        if noted is not None:
            virtual = self._noted(gpu, vc, noted)
            if virtual is not None and _may_be(gpu, virtual):
                yield virtual
        if around.bound is not None:
            if around.bound.vc == vc and around is not gpu and not around.pinned:
                yield _first_leaf(unbound_child(around.bound.children))
            return
        roots = self.hived.clusters[vc].preassigned.get(gpu.chain, [])
        least = self._extent(gpu, order)
        levels = [*range(least, len(roots)), *range(min(least, len(roots)) - 1, 0, -1)]
        for level in sorted(levels, reverse=True) if self.way.large_cells_first else levels:
            free = [root for root in roots[level] if root.bound is None]
            if free and _above(gpu, level).is_free():
                yield _first_leaf(free[0])

    def _noted(self, gpu: PhysicalCell, vc: str, noted: Seat) -> VirtualCell | None:
        roots = self.hived.clusters[vc].preassigned.get(gpu.chain, [])
        if noted.level >= len(roots) or noted.cell >= len(roots[noted.level]):
            return None
        return roots[noted.level][noted.cell].leaves()[noted.position]

    def _extent(self, gpu: PhysicalCell, order: list[int]) -> int:
        """The level of the smallest cell around all GPUs of the job that are on this one's node."""
        mates = [self.gpus[number] for number in order if self.gpus[number].nodes == gpu.nodes]
        level = 1
        while len({id(_above(one, level)) for one in mates}) > 1:
            level += 1
        return level


def _above(gpu: PhysicalCell, level: int) -> PhysicalCell:
    while gpu.level < level:
        assert gpu.parent is not None
        gpu = gpu.parent
    return gpu


def _first_leaf(cell: VirtualCell) -> VirtualCell:
    while cell.children:
        cell = cell.children[0]
    return cell


def _may_be(gpu: PhysicalCell, virtual: VirtualCell) -> bool:
    """Whether these can be bound: nothing around either of them is bound to anything else, and what is not is free."""
    cell: PhysicalCell | None = gpu
    kin: VirtualCell | None = virtual
    while kin is not None:
        if cell is None or cell.level != kin.level:
            return False
        if cell.bound is not None or kin.bound is not None:
            return cell.bound is kin
        if kin.parent is None:
            return cell.is_free()
        cell, kin = cell.parent, kin.parent
    return False
