"""Laying HiveD out as tables, from the cells as objects before anything has happened."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from fairlead.kernels.bits import add_from_python, words
from fairlead.kernels.collecting import no_collecting
from fairlead.kernels.columns import I8, Desk
from fairlead.kernels.desk import empty_desk
from fairlead.policy.hived.algorithm import Hived
from fairlead.policy.hived.build import Chain
from fairlead.policy.hived.cells import OPPORTUNISTIC, PhysicalCell, VirtualCell
from fairlead.policy.hived.setup import Setup
from fairlead.policy.hived.tables import (
    CELL_COLUMNS,
    CH_BASE,
    CH_NODE_GPUS,
    CH_NUMBER,
    CH_TOP,
    CH_VIEW,
    CHAIN_SIZE,
    CLASS_SIZE,
    H_CHAIN_COUNT,
    H_CHAINS,
    H_CLASS_COUNT,
    H_CLASSES,
    H_GPU_LIST,
    H_HEADS,
    H_INSIDE,
    H_JOBS,
    H_LEVEL_COUNT,
    H_LEVEL_SLOTS,
    H_LEVELS,
    H_NODE_LIST,
    H_NODES,
    H_OPPORTUNISM,
    H_OWNED,
    H_PARTS,
    H_PLAN_OWNED,
    H_REST,
    H_SLOTS,
    H_SPARE,
    H_STACK,
    H_STRICT,
    H_TRIES,
    H_TRY_SIZE,
    H_UNDO,
    H_VC_COUNT,
    H_VCS,
    H_VICTIMS,
    H_VIEWS,
    H_WANTED,
    HEADER,
    K_CHAIN0,
    K_CHAINS,
    K_EPOCH,
    K_GPUS,
    K_PRIO,
    K_VC,
    L_BAD,
    L_CHAIN,
    L_COUNT,
    L_FAN,
    L_FREE,
    L_GPUS,
    L_LEFT,
    L_LEVEL,
    L_NFREE,
    L_NUMBER,
    L_OWNED,
    L_SETS,
    L_SINGLE,
    L_STRIDE,
    LEVEL_SIZE,
    NOBODY,
    O_DOOMED,
    O_HAS,
    O_NPRE,
    O_OWNED,
    O_PRE,
    OWNED_SIZE,
    V_BUCKETS,
    V_DIRTY,
    V_HEADS,
    V_HIGH,
    V_NDIRTY,
    V_PHYSICAL,
    V_SET,
    V_SIZE,
    V_SLOTS,
    V_TAILS,
    VC_SIZE,
    VIEW_SIZE,
    X_ALSO,
    X_BAD,
    X_BOUND,
    X_DIRTY,
    X_GPUS,
    X_HELD,
    X_KEY,
    X_KIDS,
    X_LABEL,
    X_LEAF0,
    X_LEVEL,
    X_LINK,
    X_LV,
    X_MARK,
    X_NEXT,
    X_NKIDS,
    X_NODE,
    X_OPP,
    X_OWNER,
    X_PARENT,
    X_PIN,
    X_POS,
    X_PREV,
    X_ROOT,
    X_SLOT,
    X_SLOTS,
    X_SPLIT,
    X_USED,
    X_VC,
    X_VIEW,
)
from fairlead.state.view import View


class _Lists:
    """x, as it grows: each part is put behind the one before."""

    def __init__(self) -> None:
        self.size = HEADER
        self.parts: list[tuple[int, I8]] = []

    def put(self, values: Sequence[int] | I8) -> int:
        part = np.asarray(values, np.int64)
        at = self.size
        self.parts.append((at, part))
        self.size += len(part)
        return at

    def room(self, size: int, fill: int = 0) -> int:
        return self.put(np.full(max(size, 1), fill, np.int64))

    def array(self) -> I8:
        found = np.zeros(self.size + 1, np.int64)
        for at, part in self.parts:
            found[at : at + len(part)] = part
        return found


class Layout:
    def __init__(
        self,
        hived: Hived,
        setup: Setup,
        jobs: int,
        nodes: Sequence[str],
        held: Mapping[int, Sequence[int]] | None = None,
    ) -> None:
        """`held`: GPUs of jobs that run already, as the cells say by whom they are used."""
        self.hived, self.setup, self.held = hived, setup, held or {}
        self.lists = _Lists()
        self.chains = list(hived.chains.values())
        self.vcs = list(hived.clusters.values())
        self.slots = max((one.priority + 1 for one in setup.classes), default=1) * setup.levels or 1
        self.opportunism = bool(self.held) or any(one.priority < 0 for one in setup.classes)
        self.header = np.zeros(HEADER, np.int64)
        self._number_cells()
        self.t = np.full((len(self.cells), CELL_COLUMNS), -1, np.int64)
        self._file_levels()
        self._file_cells()
        self._file_owners()
        self._file_views()
        self._file_classes()
        self._file_nodes(nodes)
        self._file_scratch(jobs)
        self.x = self.lists.array()
        self.x[:HEADER] = self.header
        self._fill()

    def _number_cells(self) -> None:
        gpus = {}
        for chain in self.chains:
            for node in chain.all[chain.node_level]:
                for gpu in node.leaves():
                    gpus[self.setup.gpu_ids[node.address, gpu.index]] = gpu
        self.physical: list[PhysicalCell] = [gpus[number] for number in range(len(gpus))]
        self.physical += [cell for chain in self.chains for cells in chain.all.at[2:] for cell in cells]
        self.virtual: list[VirtualCell] = [
            cell
            for vc in self.vcs
            for levels in (*vc.all.values(), *vc.pinned.values())
            for cells in levels
            for cell in cells
        ]
        self.cells: list[PhysicalCell | VirtualCell] = [*self.physical, *self.virtual]
        for i, cell in enumerate(self.cells):
            cell.number = i

    def _file_levels(self) -> None:
        count = sum(chain.top for chain in self.chains)
        self.levels = np.zeros((count, LEVEL_SIZE), np.int64)
        self.header[H_LEVEL_COUNT], self.header[H_CHAIN_COUNT] = count, len(self.chains)
        self.header[H_VC_COUNT] = len(self.vcs)
        row = 0
        self.row: dict[tuple[str, int], int] = {}
        for chain in self.chains:
            for level in range(1, chain.top + 1):
                self.row[chain.name, level] = row
                one, cells = self.levels[row], len(chain.all[level])
                gpus = chain.all[level][0].gpus
                stride = int(words(cells))
                one[L_COUNT], one[L_STRIDE], one[L_GPUS] = cells, stride, gpus
                one[L_FREE], one[L_BAD] = self.lists.room(cells), self.lists.room(cells)
                one[L_SETS] = self.lists.room(stride * (gpus + 1))
                one[L_FAN], one[L_LEVEL], one[L_NUMBER] = chain.fan_out[level - 1], level, row
                one[L_LEFT], one[L_OWNED] = chain.left[level], chain.owned[level]
                one[L_SINGLE] = len(chain.all[level][0].nodes) == 1
                row += 1
        self.levels_at = self.lists.room(self.levels.size)
        self.header[H_LEVELS] = self.levels_at
        self.chain_records = np.zeros((len(self.chains), CHAIN_SIZE), np.int64)
        self.chains_at = self.lists.room(self.chain_records.size)
        self.header[H_CHAINS] = self.chains_at
        for number, chain in enumerate(self.chains):
            one = self.chain_records[number]
            one[CH_BASE] = self.lv(chain, 1) - LEVEL_SIZE
            one[CH_TOP], one[CH_NUMBER] = chain.top, number
            one[CH_NODE_GPUS] = self.setup.node_gpus[chain.name]
            for level in range(1, chain.top + 1):
                self.levels[self.row[chain.name, level], L_CHAIN] = self.chains_at + number * CHAIN_SIZE

    def lv(self, chain: Chain, level: int) -> int:
        return self.levels_at + self.row[chain.name, level] * LEVEL_SIZE

    def _file_cells(self) -> None:
        """Column by column: a cluster of 64,000 GPUs has a quarter of a million cells, and numpy takes its time for each entry."""
        t = self.t
        at = {chain.name: [0, *(self.lv(chain, level) for level in range(1, chain.top + 1))] for chain in self.chains}
        t[:, X_LV] = [at[cell.chain][cell.level] for cell in self.cells]
        levels = self.levels[(t[:, X_LV] - self.levels_at) // LEVEL_SIZE]
        t[:, X_LEVEL], t[:, X_GPUS], t[:, X_NKIDS] = levels[:, L_LEVEL], levels[:, L_GPUS], levels[:, L_FAN]
        self._file_parts()
        vc_number = {vc.name: v for v, vc in enumerate(self.vcs)}
        t[len(self.physical) :, X_VC] = [vc_number[cell.vc] for cell in self.virtual]
        t[:, [X_USED, X_OPP, X_BAD, X_SPLIT, X_PIN, X_HELD, X_DIRTY, X_MARK]] = 0
        t[:, X_SLOT] = NOBODY  # which is FREE, and OPPORTUNIST is OPPORTUNISTIC
        for cell in self.physical:
            i = cell.number
            if cell.bound is not None:
                t[i, X_BOUND], t[cell.bound.number, X_BOUND] = cell.bound.number, i
            if cell.split or cell.pinned:
                t[i, X_SPLIT], t[i, X_PIN] = cell.split, cell.pinned
            if cell.used:
                t[i, X_OPP] = cell.used.get(OPPORTUNISTIC, 0)
                t[i, X_SLOT] = NOBODY if cell.children else cell.priority
        for owned in self.virtual:
            if owned.used:
                t[owned.number, X_HELD] = _guaranteed(owned) if owned.root is owned else 0
                t[owned.number, X_SLOT] = NOBODY if owned.children else owned.priority

    def _file_parts(self) -> None:
        """Who is made of whom; and where among the GPUs of its top cell those of each cell begin."""
        t, cells = self.t, self.cells
        parts = np.array([part.number for cell in cells for part in cell.children], np.int64)
        kids = t[:, X_NKIDS]
        whole, first = np.repeat(np.arange(len(cells)), kids), np.cumsum(kids) - kids
        t[parts, X_PARENT] = whole
        level, gpus = t[:, X_LEVEL], t[:, X_GPUS]
        tops = np.flatnonzero(t[:, X_PARENT] < 0)
        top, leaf0 = np.zeros(len(cells), np.int64), np.zeros(len(cells), np.int64)
        top[tops], leaf0[tops] = tops, np.cumsum(gpus[tops]) - gpus[tops]
        before = (np.arange(len(parts)) - first[whole]) * gpus[parts]  # GPUs of a part's elder siblings
        for one in range(int(level.max()) - 1, 0, -1):
            here = np.flatnonzero(level[parts] == one)
            top[parts[here]] = top[whole[here]]
            leaf0[parts[here]] = leaf0[whole[here]] + before[here]
        single = np.flatnonzero(level == 1)
        leaves = np.zeros(len(single), np.int64)
        leaves[leaf0[single]] = single
        t[:, X_LEAF0] = self.lists.put(leaves) + leaf0
        t[:, X_KIDS] = np.where(kids > 0, self.lists.put(parts) + first, -1)
        t[len(self.physical) :, X_ROOT] = top[len(self.physical) :]

    def _file_owners(self) -> None:
        self.header[H_VCS] = self.lists.room(len(self.vcs) * VC_SIZE)
        records = np.zeros((len(self.vcs) * len(self.levels), OWNED_SIZE), np.int64)
        for v, vc in enumerate(self.vcs):
            for chain in self.chains:
                for level in range(1, chain.top + 1):
                    one = records[v * len(self.levels) + self.row[chain.name, level]]
                    if chain.name not in vc.owned:
                        continue
                    roots = vc.preassigned.get(chain.name, [[]] * (chain.top + 1))[level]
                    one[O_HAS], one[O_OWNED] = 1, vc.owned[chain.name][level]
                    one[O_PRE], one[O_NPRE] = self.lists.put([cell.number for cell in roots]), len(roots)
                    one[O_DOOMED] = self.lists.room(len(roots))
        self.header[H_OWNED] = self.lists.put(records.ravel())

    def _file_views(self) -> None:
        at = np.full((len(self.vcs), len(self.chains)), -1, np.int64)
        self.views: list[tuple[int, list[PhysicalCell] | list[VirtualCell]]] = []
        for v, vc in enumerate(self.vcs):
            for k, chain in enumerate(self.chains):
                if chain.name in vc.all:
                    nodes = [node.cell for node in self.hived.virtual_view(vc.name, chain.name).nodes]
                    at[v, k] = self._file_view(nodes, max(node.gpus for node in nodes), False)
        if self.opportunism:
            for k, chain in enumerate(self.chains):
                there = [node.cell for node in self.hived.physical_view(chain.name).nodes]
                self.chain_records[k, CH_VIEW] = self._file_view(there, self.setup.node_gpus[chain.name], True)
        self.header[H_VIEWS] = self.lists.put(at.ravel())

    def _file_view(self, nodes: list[PhysicalCell] | list[VirtualCell], size: int, physical: bool) -> int:
        record = np.zeros(VIEW_SIZE, np.int64)
        buckets = 2 * ((size + 1) ** 2 if physical else size + 1)
        record[V_SIZE], record[V_BUCKETS], record[V_PHYSICAL] = size, buckets, physical
        record[V_HEADS], record[V_TAILS] = self.lists.room(buckets, -1), self.lists.room(buckets, -1)
        record[V_SET] = self.lists.room(int(words(buckets)))
        record[V_DIRTY], record[V_SLOTS] = self.lists.room(len(nodes)), self._file_used(nodes, physical)
        at = self.lists.put(record)
        for node in nodes:
            number = node.number
            self.t[number, X_VIEW], self.t[number, X_USED] = at, _guaranteed(node)
            if not physical:
                self.t[number, X_SLOTS] = self._file_used([node], False)
            for gpu in node.leaves():
                self.t[gpu.number, X_NODE] = number
        self.views.append((at, nodes))
        return at

    def _file_used(self, nodes: Sequence[PhysicalCell | VirtualCell], physical: bool) -> int:
        """GPUs of some nodes by the priority of who has them."""
        used = [0] * self.slots
        for node in nodes if not physical else ():
            for slot, count in node.used.items():
                used[slot] += count
        return self.lists.put(used)

    def _file_classes(self) -> None:
        count = max((one.number for one in self.setup.classes), default=0) + 1
        records = np.zeros((count, CLASS_SIZE), np.int64)
        records[:, K_EPOCH] = -1
        names = [vc.name for vc in self.vcs]
        numbers = {chain.name: number for number, chain in enumerate(self.chains)}
        for one in self.setup.classes:
            row = records[one.number]
            row[K_VC], row[K_PRIO], row[K_GPUS] = names.index(one.vc), one.priority, one.gpus
            row[K_CHAINS] = len(one.chains)
            row[K_CHAIN0] = self.lists.put([self.chains_at + numbers[chain] * CHAIN_SIZE for chain in one.chains])
        self.header[H_CLASSES], self.header[H_CLASS_COUNT] = self.lists.put(records.ravel()), count

    def _file_nodes(self, machines: Sequence[str]) -> None:
        """By machine, its GPUs, in the order of the cells."""
        machine = {node.address: node.machine for top in self.setup.spec.physical for node in top.nodes()}
        found = {
            machine[node.address]: [gpu.number for gpu in node.leaves()]
            for chain in self.chains
            for node in chain.all[chain.node_level]
        }
        table = []
        for name in machines:
            gpus = found.get(name, [])
            table += [self.lists.put(gpus), len(gpus)]
        self.header[H_NODES] = self.lists.put(table)

    def _file_scratch(self, jobs: int) -> None:
        room, header, gpus = self.lists.room, self.header, len(self.cells)
        top = max(chain.top for chain in self.chains)
        fan = max(max(chain.fan_out) for chain in self.chains)
        header[H_JOBS] = room(jobs, -1)
        for which in (H_NODE_LIST, H_GPU_LIST, H_REST, H_WANTED, H_INSIDE, H_STACK, H_VICTIMS, H_PARTS):
            header[which] = room(gpus)
        header[H_UNDO] = room(3 * (2 * gpus + 4 * top))
        header[H_TRY_SIZE] = fan + 1
        header[H_TRIES] = room(3 * (fan + 1) * (top + 2))
        header[H_PLAN_OWNED], header[H_SPARE] = room(top + 2), room(top + 2)
        header[H_HEADS] = room(2 * len(self.vcs))
        header[H_LEVEL_SLOTS], header[H_SLOTS] = self.setup.levels, self.slots
        header[H_STRICT], header[H_OPPORTUNISM] = self.setup.strict, self.opportunism

    def _fill(self) -> None:
        """What only makes sense when all is in place: records, free lists, the nodes of views in their order."""
        t, x = self.t, self.x
        x[self.levels_at : self.levels_at + self.levels.size] = self.levels.ravel()
        x[self.chains_at : self.chains_at + self.chain_records.size] = self.chain_records.ravel()
        for chain in self.chains:
            for level, cells in enumerate(chain.free.at):
                for position, cell in enumerate(cells):
                    lv = self.lv(chain, level)
                    x[x[lv + L_FREE] + position], t[cell.number, X_POS] = cell.number, position
                    opportunists = cell.used.get(OPPORTUNISTIC, 0)
                    add_from_python(x, x[lv + L_SETS] + opportunists * x[lv + L_STRIDE], x[lv + L_COUNT], position)
                    x[lv + L_NFREE] = position + 1
        for at, nodes in self.views:
            size = int(x[at + V_SIZE])
            key = size * (size + 1) if x[at + V_PHYSICAL] else size
            numbers = [node.number for node in nodes]
            t[numbers, X_KEY], t[numbers, X_LABEL] = key, np.arange(1, len(numbers) + 1)
            t[numbers[1:], X_PREV], t[numbers[:-1], X_NEXT] = numbers[:-1], numbers[1:]
            x[x[at + V_HEADS] + key], x[x[at + V_TAILS] + key], x[at + V_HIGH] = numbers[0], numbers[-1], len(numbers)
            add_from_python(x, x[at + V_SET], x[at + V_BUCKETS], key)
            in_use = [node.number for node in nodes if node.used]
            t[in_use, X_DIRTY] = 1
            x[x[at + V_DIRTY] : x[at + V_DIRTY] + len(in_use)], x[at + V_NDIRTY] = in_use, len(in_use)
        self._fill_jobs()

    def _fill_jobs(self) -> None:
        """Who has which GPUs. Two who share one have no other."""
        t, x = self.t, self.x
        for job, gpus in self.held.items():
            x[x[H_JOBS] + job] = gpus[0]
            for gpu, after in zip(gpus, [*gpus[1:], -1]):
                t[gpu, X_ALSO], t[gpu, X_OWNER], t[gpu, X_LINK] = t[gpu, X_OWNER], job, after


def _guaranteed(cell: PhysicalCell | VirtualCell) -> int:
    """GPUs of a cell that guaranteed jobs have."""
    return sum(count for priority, count in cell.used.items() if priority != OPPORTUNISTIC)


#: fresh cells in, cells that jobs hold out, and the GPUs of each of those jobs
Settle = Callable[[Callable[[], Hived]], tuple[Hived, Mapping[int, Sequence[int]]]]


def lay_out(view: View, setup: Setup, settle: Settle | None = None) -> Desk:
    def fresh() -> Hived:
        return Hived(setup.spec, checked=True)

    with no_collecting():
        hived, held = (fresh(), {}) if settle is None else settle(fresh)
        found = Layout(hived, setup, view.jobs_in_all, [node.name for node in view.cluster.nodes], held)
    gpus = view.cluster.gpus
    return empty_desk(2 * gpus + 1, gpus, ints=found.t, cells=found.x)
