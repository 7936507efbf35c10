//! Timeouts, network, unavailable dependencies, exhausted resources.

use super::{CLEAR, HINT, LIKELY, Rule, SURE};
use crate::classify::evidence::FailurePlace::{
    Broker, Database, Framework, Human, Infrastructure, Llm, Network as NetworkPlace, Tool, Validation,
};
use crate::reason::Category::{Permanent, Transient};
use crate::reason::Reason::{DependencyUnavailable, Network, ResourceExhausted, Timeout};

pub(super) static RULES: &[Rule] = &[
    Rule::new("builtin.timeout.exceeded", Timeout, CLEAR + 2, &[
        "timed out", "timedout", "timeout error", "timeout exception", "timeout expired", "timeout exceeded",
        "timeout ~ exceeded", "exceeded timeout", "exceeded ~ timeout", "exceeds timeout", "time limit",
        "read timeout", "write timeout", "connect timeout", "connection timeout", "request timeout",
        "response timeout", "gateway timeout", "gateway time out", "socket timeout", "idle timeout",
        "operation timeout", "statement timeout", "query timeout", "execution timeout", "task timeout", "job timeout",
        "step timeout", "command timeout", "tool timeout", "hard time limit", "soft time limit", "deadline exceeded",
        "deadline has elapsed", "deadline elapsed", "deadline expired", "past deadline", "deadline has passed",
        "etimedout", "esockettimedout", "econnaborted", "i o timeout", "api timeout", "apitimeout",
        "und err headers timeout", "und err connect timeout", "und err body timeout", "took too long",
        "taking too long", "too long to respond", "too long to complete", "did not respond in time",
        "not respond in time", "did not complete within", "not complete within", "did not finish within",
        "not finished within", "no response within", "no response received within", "not received within",
        "did not respond within", "within ~ seconds", "not completed in time", "exceeded the maximum execution time",
        "exceeded max execution time", "max execution time", "maximum execution time", "execution time exceeded",
        "maximum wall", "exceeded maximum runtime", "max runtime", "max run duration", "aborted due to timeout",
        "due to timeout", "because of a timeout", "interrupt ~ timeout", "timeout waiting", "timeout while",
        "timeout after", "timeout of", "timeout reached", "timeout occurred", "timeout was reached", "hit timeout",
        "elapsed before", "receipt handle has expired", "receipt handle is expired", "lease expired",
        "lease has expired", "lease timed out", "message lock expired", "lock ~ expired", "lock has expired",
        "message lock lost", "ack wait", "ack deadline", "visibility timeout", "max poll interval",
        "poll interval exceeded", "heartbeat timeout", "heartbeat expired", "missed heartbeat", "missing heartbeat",
        "heartbeat lost", "no heartbeat", "session timeout", "keepalive timeout", "keep alive timeout",
        "ping timeout", "handshake timeout", "schedule to start", "start to close", "schedule to close", "watchdog",
        "exceeded grace", "exceeded deadline", "deadlineexceeded", "failed to update metadata after", "超时",
        "time out after", "time out while", "connection time out", "request time out", "max duration",
        "maximum duration", "exceeded duration", "err timed out",
    ])
    .unless(&["approval", "timeout parameter"])
    .note("ETIMEDOUT, DEADLINE_EXCEEDED, every client's TimeoutError; SQS receipt handles, NATS ack wait, AMQP \
         acknowledgement, Temporal, Celery limits; HTTP 408, 504, 522, 524")
    .example("httpx.ReadTimeout: The read operation timed out"),
    Rule::new("builtin.timeout.word", Timeout, LIKELY - 4, &[
        "timeout", "timeouts", "stalled", "unresponsive", "not responding", "hung",
    ])
    .unless(&["approval"])
    .note("the bare word, which a more exact wording overrules")
    .example("nats: timeout"),
    Rule::new("builtin.network.certificate", Network, SURE + 2, &[
        "certificate verify failed", "certificate verification failed", "certificate has expired", "cert has expired",
        "certificate is not yet valid", "self signed certificate", "self signed cert", "unable to get local issuer",
        "unable to get issuer certificate", "unable to verify the first certificate", "unable to verify leaf", "x509",
        "signed by unknown authority", "certificate is not trusted", "untrusted certificate", "invalid certificate",
        "invalid peer certificate", "unknown issuer", "cert altname invalid", "hostname mismatch",
        "doesn't match hostname ~ cert", "certificate is valid for", "certificate name mismatch",
        "not valid for name", "pkix path building", "unable to find valid certification path", "certificate required",
        "bad certificate", "certificate unknown", "unknown ca", "ssl cert verification",
        "connector certificate error", "ssl certificate problem", "certificate problem", "certificate validation",
        "remote certificate is invalid", "cert verify", "tls certificate", "no ca certificate", "ssl certificate",
    ])
    .category(Permanent)
    .note("certificate verification fails the same way every time: OpenSSL, Go x509, Java PKIX, rustls, Node")
    .example("x509: certificate signed by unknown authority"),
    Rule::new("builtin.network.reset", Network, CLEAR + 6, &[
        "econnreset", "connection reset", "connection aborted", "connection broken", "socket hang up", "broken pipe",
        "epipe", "peer closed", "remote protocol error", "incomplete read", "incompleteread", "server disconnected",
        "remote end closed", "remote host closed", "connection closed", "connection was closed",
        "connection is closed", "connection lost", "lost connection", "connection terminated", "connection dropped",
        "connection interrupted", "connection has been closed", "forcibly closed", "software caused connection abort",
        "closed the connection", "closed connection", "closed unexpectedly", "network is unreachable",
        "network unreachable", "network is down", "no route to host", "enetunreach", "ehostunreach", "enetdown",
        "host unreachable", "host is unreachable", "host is down", "network error", "network connection",
        "network failure", "network changed", "err network", "err internet disconnected", "eai again", "eai fail",
        "getaddrinfo", "enotfound", "name or service not known", "name resolution", "nodename nor servname",
        "could not resolve", "couldn't resolve", "cannot resolve host", "failed to resolve", "no such host",
        "unknown host", "unknownhost", "dns lookup", "dns error", "dns resolution", "dns failure",
        "no address associated", "tls handshake", "ssl handshake", "handshake failed", "handshake failure",
        "handshake error", "tls error", "ssl error", "ssl routines", "wrong version number", "unexpected eof",
        "eof occurred in violation", "ssl eof", "unexpected message ~ tls", "record layer failure",
        "decryption failed or bad record mac", "bad record mac", "tlsv1 alert", "proxy error", "proxy connection",
        "proxy authentication", "tunnel connection failed", "unable to connect to proxy", "cannot connect to proxy",
        "proxyconnect", "chunked encoding error", "premature close", "premature end", "unexpected end of file",
        "unexpected end of stream", "stream ended before", "stream closed before", "stream disconnected",
        "stream was closed", "stream interrupted", "stream reset", "stream terminated", "stream closed",
        "stream ended unexpectedly", "stream ended without", "err stream premature", "err http2", "http2 error",
        "http 2 error", "http2 stream", "goaway", "rst stream", "connection closed before message completed",
        "incomplete message", "incomplete chunked", "error reading a body", "error decoding response body",
        "error reading response body", "request or response body error", "payload is not completed",
        "client payload error", "content length mismatch", "content length ~ too small", "response ended prematurely",
        "transfer closed", "empty reply from server", "und err socket", "other side closed", "err ssl",
        "socket closed", "socket is closed", "socket error", "socket is not connected", "not a socket",
        "websocket closed", "websocket connection ~ closed", "websocket error", "websocket is not open",
        "abnormal closure", "close 1006", "closed 1006", "close code 1006", "closed code 1006",
        "closed with 1006", "closed with code 1006", "closure 1006", "code 1006 reason", "disconnected 1006",
        "disconnect 1006", "received 1006", "websocket 1006", "websocket error 1006", "websocket code 1006", "ws 1006",
        "transport closed", "transport error",
        "transport is closing", "transport endpoint", "transport failure", "transport exception", "sse connection",
        "sse error", "mcp error 32000", "client connection error", "client os error", "server connection error",
        "use of closed network connection", "connection pool is closed", "protocol error", "bad file descriptor",
        "early eof", "rpc failed", "remote end hung up", "the remote end", "aborted connection", "network timeout",
        "mid stream", "internet connection", "you appear to be offline", "offline", "unreachable",
        "err connection reset", "err connection closed", "err name not resolved", "err address unreachable",
        "err ssl protocol", "err proxy connection",
    ])
    .unless(&[
        "connection pool is closed by", "certificate verify failed", "connection refused", "econnrefused",
        "coordinator unreachable",
    ])
    .note("ECONNRESET, EPIPE, EAI_AGAIN, ENETUNREACH; httpx, requests, aiohttp, undici, hyper, grpc: what broke on \
         the way; MCP: -32000")
    .example("read ECONNRESET"),
    Rule::new("builtin.network.connection", Network, LIKELY - 8, &[
        "connection error", "api connection error", "connect error", "connection failed", "connection failure",
        "connection exception", "client connector error", "http connection pool", "max retries exceeded with url",
        "connection problem", "connection issue", "connectivity", "ssl", "dns", "socket exception", "io exception",
        "transport", "request error", "http error", "eof error", "eof", "disconnected", "unable to reach",
        "could not reach", "cannot reach", "network", "read tcp", "write tcp", "fetch failed", "failed to fetch",
        "network request failed", "error sending request", "net err",
    ])
    .unless(&["connection refused", "econnrefused"])
    .note("OpenAI, Anthropic: APIConnectionError; the class of a broken connection without its cause")
    .example("openai.APIConnectionError: Connection error."),
    Rule::new("builtin.dependency.refused", DependencyUnavailable, CLEAR + 9, &[
        "connection refused", "econnrefused", "actively refused", "refused the connection", "connect call failed",
        "refused to connect", "connection was refused", "connection is refused", "econn refused",
        "err connection refused", "target machine actively", "connection attempt refused", "connectex",
        "nothing is listening", "refused connection",
    ])
    .note("ECONNREFUSED in every language: nobody listens there")
    .example("dial tcp 10.0.0.1:5432: connect: connection refused"),
    Rule::new("builtin.dependency.down", DependencyUnavailable, CLEAR + 7, &[
        "no brokers available", "no available brokers", "no broker", "all brokers down", "broker not available",
        "broker transport failure", "bootstrap broker", "broker is not available", "run out of available brokers",
        "leader not available", "not leader", "no leader", "not the leader", "lost leadership", "leadership election",
        "election in progress", "coordinator not available", "group coordinator not available",
        "coordinator load in progress", "not coordinator", "not enough replicas", "replica not available",
        "not controller", "no servers available", "no responders", "no servers could be reached",
        "no nodes available", "no living connections", "no host available", "no reachable servers",
        "server selection timeout", "server selection error", "no primary", "not primary", "no healthy upstream",
        "no healthy", "upstream connect error", "upstream unavailable", "too many connections", "too many clients",
        "remaining connection slots", "connection slots are reserved", "max number of clients",
        "max user connections", "max client conn", "no more connections allowed", "too many open connections",
        "starting up", "the database system is", "is shutting down", "shutting down", "in recovery mode",
        "not yet accepting", "is not accepting", "terminating connection due to administrator",
        "server closed the connection unexpectedly", "server has gone away", "lost connection to mysql",
        "can't connect to mysql", "can't connect to local mysql", "is the server running", "clusterdown",
        "cluster is down", "masterdown", "loading redis", "redis is loading", "loading the dataset in memory",
        "readonly you can't write", "docker daemon", "docker is not running", "is docker running",
        "is currently unavailable", "temporarily unavailable", "service unavailable", "service is unavailable",
        "service not available", "service is down", "service is not available", "currently unavailable",
        "under maintenance", "maintenance mode", "scheduled maintenance", "down for maintenance", "site is down",
        "is down", "server is down", "host is down", "backend unavailable", "server unavailable",
        "server not running", "server is not running", "not yet ready", "manager not available",
        "client not available", "server not available", "server not connected", "client not connected",
        "connection not established", "not connected to", "server disconnected unexpectedly", "dependency failed",
        "dependency unavailable", "circuit breaker", "circuit open", "circuit is open", "breaker is open",
        "failed to start mcp", "mcp server ~ failed", "mcp server failed", "no workers", "no worker",
        "no available server", "all nodes failed", "no master", "master not discovered", "not master",
        "cluster block exception", "search phase execution", "no shard available", "endpoint not available",
        "etcdserver", "etcd leader", "node not ready", "no endpoints available", "no subscribers", "no consumers",
        "tryagain",
    ])
    .unless(&["connection closed by", "model is overloaded", "high demand", "no space left", "approval", "capacity"])
    .at(&[Tool, NetworkPlace, Broker, Database, Infrastructure, Framework])
    .note("brokers, databases, caches and services that are down, starting or full: PostgreSQL 53300 and 57P03, \
         Kafka, NATS, Redis, MongoDB, Elasticsearch; HTTP 503 outside the model")
    .example("FATAL: sorry, too many clients already"),
    Rule::new("builtin.dependency.unreached", DependencyUnavailable, LIKELY + 5, &[
        "could not connect", "couldn't connect", "cannot connect", "can't connect", "unable to connect",
        "failed to connect", "not able to connect", "could not establish connection", "unable to establish",
        "failed to establish a new connection", "is unavailable", "not connected", "no connection",
        "connection not available", "not ready", "is not ready", "not started", "is not running",
        "failed to reconnect", "reconnect failed", "quorum", "amqpconnectionerror", "broker connection error",
    ])
    .unless(&["connection closed by", "model is overloaded", "high demand", "approval", "capacity"])
    .at(&[Tool, NetworkPlace, Broker, Database, Infrastructure, Framework])
    .note("could not connect to it: the cause, if one is named, decides instead")
    .example("Unable to connect to the queue at amqp://mq:5672"),
    Rule::new("builtin.dependency.anywhere", DependencyUnavailable, LIKELY + 12, &[
        "no brokers available", "too many clients", "too many connections", "leader not available", "no responders",
        "the database system is starting up", "cannot connect to the docker daemon", "no healthy upstream",
        "circuit breaker", "service unavailable", "server selection timeout", "under maintenance",
        "temporarily unavailable", "upstream connect error", "loading the dataset in memory", "redis is loading",
    ])
    .at(&[Human, Llm, Validation])
    .unless(&["timed out", "name resolution", "name or service not known", "connection reset", "certificate"])
    .note("the same behind a model or a person: what they need is down")
    .example("NoBrokersAvailable"),
    Rule::new("builtin.dependency.server", DependencyUnavailable, LIKELY - 6, &[
        "internal server error", "bad gateway", "server error", "unavailable", "service error", "upstream", "backend",
        "web server is down", "operational error", "not available",
    ])
    .at(&[Tool, NetworkPlace, Broker, Database, Infrastructure, Framework])
    .note("a service other than the model that fails on its side")
    .example("500 Internal Server Error from the billing service"),
    Rule::new("builtin.network.hint", Network, HINT, &[
        "connection", "disconnect", "proxy", "stream",
    ])
    .at(&[NetworkPlace, Broker])
    .note("words of transport in a step that is transport")
    .example("something about the proxy"),
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
