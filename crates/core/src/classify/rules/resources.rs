//! Our own side ran out: memory, disk, GPU, pool; or the platform took the process away.

use crate::classify::rule::{CLEAR, LIKELY, Rule, SURE};
use crate::reason::Category::Transient;
use crate::reason::Reason::ResourceExhausted;

pub(super) static RULES: &[Rule] = &[
    Rule::new("builtin.resource.evicted", ResourceExhausted, SURE, &[
        "evicted", "eviction", "preempted", "preemption", "preempting", "spot interruption",
        "spot instance ~ interrupt", "instance was terminated", "node was low on resource", "node pressure",
        "memory pressure", "disk pressure", "pid pressure", "node shutdown", "node lost", "node is not ready ~ pod",
        "sigkill", "sigterm", "signal 9", "signal 15", "signal killed", "signal terminated", "killed by signal",
        "terminated by signal", "died with signals", "exit code 137", "exit status 137", "exit code 143",
        "exit status 143", "exited with code 137", "exited with code 143", "exited with 137", "returned 137",
        "code 137", "exit 137", "status 137", "code 143", "signal sigkill", "signal sigterm", "exit code 9",
        "received signal", "worker was killed", "worker killed", "process was killed", "process killed",
        "container killed", "container was killed", "pod was terminated", "pod deleted", "being deleted",
        "worker lost", "worker died", "worker terminated", "worker exited prematurely", "worker lost error",
        "worker crashed", "executor lost", "runner has received a shutdown", "runner lost",
        "lost communication with the server", "machine stopped", "scaled down", "killed",
    ])
    .category(Transient)
    .unless(&[
        "out of memory error", "oomkilled", "oom killed", "oom killer", "out of memory", "killed by user",
        "sigterm by user", "connection was killed",
    ])
    .note("Kubernetes evictions, spot instances, SIGKILL and SIGTERM by the platform, Celery WorkerLostError")
    .example("Pod evicted: node was low on resource: ephemeral-storage"),
    Rule::new("builtin.resource.pool", ResourceExhausted, CLEAR + 15, &[
        "queuepool limit", "pool exhausted", "pool timeout", "pool is exhausted", "pool limit", "pool is full",
        "pool size", "connection pool exhausted", "connection pool ~ exhausted", "connection pool is full",
        "connection pool timeout", "exhausted the connection pool", "acquiring connection from pool",
        "connection from the pool", "timed out while waiting for an open slot in the pool", "no available connection",
        "no free connection", "could not get a resource from the pool", "getconn timeout", "pool connect timeout",
        "unable to obtain connection", "hikari", "too many open files", "emfile", "enfile", "thread pool",
        "can't start new thread", "cannot start new thread", "unable to create native thread",
        "resource temporarily unavailable", "eagain", "no more threads", "cannot fork", "cannot allocate thread",
        "pool acquire", "pool overflow",
    ])
    .category(Transient)
    .note("connection pools (SQLAlchemy, httpx, HikariCP, psycopg, node-postgres), file handles and threads")
    .example("QueuePool limit of size 5 overflow 10 reached, connection timed out"),
    Rule::new("builtin.resource.killed_memory", ResourceExhausted, SURE + 1, &[
        "oomkilled", "oom killed", "oom killer", "oom kill", "out of memory killed", "killed process ~ out of memory",
        "memory cgroup out of memory", "memory limit ~ killed",
    ])
    .note("the kernel or the platform killed it for its memory: again with the same limit it is killed again")
    .example("Last State: Terminated, Reason: OOMKilled"),
    Rule::new("builtin.resource.memory", ResourceExhausted, CLEAR + 16, &[
        "out of memory", "outofmemory", "memoryerror", "cannot allocate memory", "could not allocate memory",
        "failed to allocate", "unable to allocate", "allocation failed", "memory allocation", "enomem", "heap limit",
        "heap out of memory", "java heap space", "gc overhead limit", "memory limit exceeded",
        "exceeded memory limit", "exceeds memory limit", "memory exhausted", "insufficient memory",
        "not enough memory", "requires more system memory", "more memory than", "oom", "cuda out of memory",
        "cuda error", "cudamalloc", "gpu memory", "hip out of memory", "vram", "mps backend out of memory",
        "bad alloc", "memory limit", "maxmemory", "used memory", "max memory size exceeded", "exceeded the memory",
        "insufficient resources", "insufficient cpu", "insufficient memory ~ node", "resources exhausted",
        "exceeded quota ~ pods", "no gpu available", "no gpus available", "failedscheduling", "failed scheduling",
        "nodes are available", "insufficient nvidia", "insufficient gpu",
    ])
    .unless(&["rate limit"])
    .note("memory of every kind: CUDA, JVM, V8, malloc, Lambda, Redis OOM; Kubernetes scheduling")
    .example("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"),
    Rule::new("builtin.resource.disk", ResourceExhausted, CLEAR + 16, &[
        "no space left", "enospc", "disk full", "disk is full", "disk quota exceeded", "edquot", "not enough disk",
        "insufficient disk", "insufficient storage", "out of disk", "disk space", "storage full",
        "database or disk is full", "could not extend file", "quota exceeded error ~ storage", "storage quota",
        "file system full", "filesystem full", "no inodes", "no space on", "disk usage exceeded",
        "flood stage disk watermark", "write no space", "ran out of disk", "file too large to", "low disk",
    ])
    .note("ENOSPC, EDQUOT, SQLITE_FULL, PostgreSQL 53100, Elasticsearch watermarks")
    .example("OSError: [Errno 28] No space left on device"),
    Rule::new("builtin.resource.generic", ResourceExhausted, LIKELY, &[
        "resource limit", "resource limits", "cpu limit", "compute quota", "resource quota", "ulimit",
        "maximum number of processes", "segmentation fault", "core dumped", "bus error", "queue is full",
        "queue full", "buffer is full", "local queue full", "max queue size", "max pending", "backpressure",
    ])
    .note("other limits of our own side: queues, processes, quotas of a cluster")
    .example("local: Queue full"),
];
