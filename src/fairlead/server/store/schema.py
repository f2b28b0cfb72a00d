"""The tables. Times are seconds of the scheduler's clock, as the caller has them; amounts of GPU are milli-GPU.

`jobs` has a narrow row for each job, in order of submission, that listings read without the specification (which tasks of one
array share). `events` is the journal: rows are added and pruned, never changed. A job has ended once `finished_s` is set,
whatever its state is called.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)

VERSION = 1
#: says in an SQLite file's header that it is ours: "FLDR"
APPLICATION_ID = 0x464C4452

METADATA = MetaData()
#: the same order everywhere: SQLite compares bytes, PostgreSQL by the server's language unless told
Words = Text().with_variant(Text(collation="C"), "postgresql")
#: SQLite's own row number, and as wide as PostgreSQL has
Seq = BigInteger().with_variant(Integer(), "sqlite")


META = Table("meta", METADATA, Column("key", Words, primary_key=True), Column("value", Words, nullable=False))

SPECS = Table(
    "specs",
    METADATA,
    Column("seq", Seq, primary_key=True, autoincrement=False),  # that of the first job that has it
    Column("document", Words, nullable=False),
)

JOBS = Table(
    "jobs",
    METADATA,
    Column("seq", Seq, primary_key=True, autoincrement=False),
    Column("id", Words, nullable=False, unique=True),
    Column("name", Words, nullable=False),
    Column("tenant", Words, nullable=False),
    Column("user", Words, nullable=False),
    Column("spec_seq", Seq, ForeignKey("specs.seq"), nullable=False),
    Column("submit_s", Double, nullable=False),
    Column("array_id", Words),
    Column("array_index", Integer),
    Column("key", Words),  # of the first task of an array only
    Column("gpus", Integer, nullable=False),  # asked for, all nodes together
    Column("priority", Integer, nullable=False),
    # what became of it
    Column("state", Words, nullable=False),
    Column("reason", Words, nullable=False, server_default=""),
    Column("message", Words, nullable=False, server_default=""),
    Column("first_start_s", Double),
    Column("started_s", Double),
    Column("finished_s", Double),
    Column("exit_code", Integer),
    Column("signal", Integer),
    Column("run", Integer, nullable=False, server_default="0"),
    Column("preemptions", Integer, nullable=False, server_default="0"),
    Column("suspension", Words, nullable=False, server_default=""),
    Column("held_milli", Integer, nullable=False, server_default="0"),
    Column("places", Words, nullable=False, server_default="[]"),
    Column("ran_s", Double, nullable=False, server_default="0"),
    Column("memo", Words, nullable=False, server_default="{}"),
    Column("changed_seq", Seq, nullable=False),  # the last event when this row was written
    UniqueConstraint("user", "key"),
)
Index("jobs_by_state", JOBS.c.state, JOBS.c.seq)
Index("jobs_by_tenant", JOBS.c.tenant, JOBS.c.seq)
Index("jobs_counted", JOBS.c.tenant, JOBS.c.state)
Index("jobs_by_user", JOBS.c.user, JOBS.c.seq)
Index("jobs_by_end", JOBS.c.finished_s, JOBS.c.seq)
Index("jobs_by_start", JOBS.c.first_start_s, JOBS.c.seq)
Index("jobs_of_array", JOBS.c.array_id)
Index("jobs_by_spec", JOBS.c.spec_seq)
Index(
    "jobs_alive",
    JOBS.c.seq,
    sqlite_where=text("finished_s IS NULL"),
    postgresql_where=text("finished_s IS NULL"),
)

DEPENDENCIES = Table(
    "dependencies",
    METADATA,
    Column("job_seq", Seq, ForeignKey("jobs.seq", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("on_seq", Seq, ForeignKey("jobs.seq", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("condition", Words, nullable=False),
)
Index("dependencies_on", DEPENDENCIES.c.on_seq)

EVENTS = Table(
    "events",
    METADATA,
    Column("seq", Seq, primary_key=True, autoincrement=False),
    Column("time_s", Double, nullable=False),
    Column("kind", Words, nullable=False),
    Column("job_seq", Seq, ForeignKey("jobs.seq", ondelete="CASCADE")),
    Column("run", Integer, nullable=False),
    Column("args", Words, nullable=False),
)
Index("events_of_job", EVENTS.c.job_seq, EVENTS.c.seq)

TENANTS = Table(
    "tenants",
    METADATA,
    Column("name", Words, primary_key=True),
    Column("quota_gpus", Integer),
    Column("weight", Double, nullable=False),
)

USERS = Table(
    "users",
    METADATA,
    Column("name", Words, primary_key=True),
    Column("tenant", Words, nullable=False),  # where its jobs go that name none
    Column("created_s", Double, nullable=False),
    Column("disabled", Boolean, nullable=False, server_default=text("false")),
)

TOKENS = Table(
    "tokens",
    METADATA,
    Column("id", Words, primary_key=True),
    Column("hash", Words, nullable=False, unique=True),
    Column("user", Words, ForeignKey("users.name"), nullable=False),
    Column("role", Words, nullable=False),
    Column("label", Words, nullable=False, server_default=""),
    Column("created_s", Double, nullable=False),
    Column("expires_s", Double),
    Column("revoked_s", Double),
    Column("used_s", Double),
)

NODES = Table(
    "nodes",
    METADATA,
    Column("name", Words, primary_key=True),
    Column("drained_s", Double),
    Column("drained_by", Words, nullable=False, server_default=""),
    Column("drain_reason", Words, nullable=False, server_default=""),
)

SETTINGS = Table("settings", METADATA, Column("key", Words, primary_key=True), Column("value", Words, nullable=False))

USAGE = Table(
    "usage",
    METADATA,
    Column("tenant", Words, primary_key=True),
    Column("gpu_s", Double, nullable=False),
    Column("as_of_s", Double, nullable=False),
    Column("event_seq", Seq, nullable=False),  # every event up to this one is in it, none after it
)
