//! Defects in code and broken data.

use super::{CLEAR, HINT, LIKELY, Rule, SURE};
use crate::classify::evidence::FailurePlace::{Framework, Llm, Tool};
use crate::reason::Reason::{Bug, DataIntegrity};

pub(super) static RULES: &[Rule] = &[
    Rule::new("builtin.bug.recursion", Bug, SURE + 1, &[
        "maximum recursion depth", "maximum call stack", "stack overflow", "stackoverflow", "stack level too deep",
        "recursionerror",
    ])
    .unless(&["graph recursion", "recursion limit of"])
    .note("Python's RecursionError, V8's RangeError: a defect, not a step limit")
    .example("RecursionError: maximum recursion depth exceeded"),
    Rule::new("builtin.bug.module", Bug, CLEAR + 15, &[
        "no module named", "module not found error", "cannot find module", "cannot find package",
        "err module not found", "cannot import name", "import error", "could not import", "failed to import",
        "module has no attribute", "class not found exception", "classnotfoundexception", "no class def found",
        "no such method error", "undefined symbol", "err require esm", "does not provide an export",
        "cannot use import statement", "package is not installed", "unresolved import",
        "could not load file or assembly", "dependency conflict", "please install it with pip", "pip install",
        "npm install",
    ])
    .unless(&["is not recognized as an internal"])
    .note("a missing or mismatched module: Python, Node, Java, .NET")
    .example("ModuleNotFoundError: No module named 'requestz'"),
    Rule::new("builtin.bug.access", Bug, CLEAR + 9, &[
        "object has no attribute", "nonetype", "none type", "cannot read propert*", "cannot set propert*",
        "of undefined", "undefined is not", "null is not an object", "is not a function", "is not iterable",
        "is not a constructor", "is not subscriptable", "not subscriptable", "object is not callable", "not callable",
        "unsupported operand", "can only concatenate", "must be str not", "unhashable type",
        "unexpected keyword argument", "required positional argument", "positional arguments but",
        "takes ~ positional", "got multiple values for", "not json serializable", "not serializable",
        "list index out of range", "string index out of range", "index out of range", "index out of bounds",
        "array index out of", "out of bounds", "dictionary changed size", "not enough values to unpack",
        "too many values to unpack", "local variable ~ referenced before", "referenced before assignment",
        "cannot access local variable", "is not defined", "cannot access ~ before initialization", "division by zero",
        "divide by zero", "null pointer", "nullpointer", "nil pointer", "null reference", "object reference not set",
        "invalid memory address", "panicked at", "goroutine panic", "runtime error ~ index", "unwrap on a none",
        "called option unwrap", "called result unwrap", "undefined method", "undefined local variable",
        "undefined variable", "undefined array key", "undefined index", "undefined property", "undefined offset",
        "call to undefined", "call to a member function", "class cast exception", "cannot be cast to",
        "illegal state exception", "unsupported operation exception", "not implemented error", "not implemented",
        "notimplemented", "assertion failed", "assertion error", "assertionerror", "assert failed",
        "invariant violation", "invariant failed", "invariant", "should never happen", "this should not happen",
        "should not happen", "unreachable code", "internal inconsistency", "this is a bug", "please report this",
        "is a bug", "file a bug", "was never awaited", "event loop is closed", "event loop is already running",
        "cannot be called from a running event loop", "attached to a different loop", "no running event loop",
        "cannot reuse already awaited", "generator already executing", "object is not a ~ instance", "can't compare",
        "not supported between instances", "missing return", "converting circular structure", "circular reference",
        "circular import", "body is unusable", "body has already been", "headers already sent",
        "cannot set headers after", "already been consumed", "stream already read", "is not assignable",
        "is not a valid react", "minified react error", "unbound local error", "invalid left hand",
        "unexpected identifier", "indentation error", "expected an indented block", "invalid syntax",
        "template not found", "undefined error",
    ])
    .unless(&["tool ~ is not defined"])
    .note("defects in Python, JavaScript, Rust, Go, Java, .NET, Ruby, PHP: the message names the mistake")
    .example("TypeError: Cannot read properties of undefined (reading 'id')"),
    Rule::new("builtin.bug.class", Bug, LIKELY + 4, &[
        "keyerror", "typeerror", "attributeerror", "indexerror", "nameerror", "referenceerror", "unbound local",
        "stop iteration", "null reference exception", "argument null exception", "argument exception",
        "invalid operation exception", "panic", "fatal error", "unhandled exception", "uncaught exception",
        "unhandled promise rejection", "uncaught error", "unhandled rejection", "illegal state",
        "concurrent modification exception", "deprecation", "rangeerror", "lookuperror", "syntaxerror",
        "arithmeticerror", "overflowerror", "nosuchelement", "zerodivisionerror", "nomethoderror",
    ])
    .unless(&[
        "syntax error near", "json", "sql", "syntax error at or near", "foreign key error", "api key error",
        "unexpected token", "kernel panic",
    ])
    .note("exception classes that mean a defect unless the message says more")
    .example("KeyError: 'temperature'"),
    Rule::new("builtin.bug.hint", Bug, HINT - 4, &[
        "traceback most recent call last", "runtimeerror", "runtime exception", "illegal argument exception",
        "undefined", "null", "exception in thread", "valueerror",
    ])
    .at(&[Framework, Llm])
    .note("an exception of no further meaning in our own code")
    .example("RuntimeError: odd"),
    Rule::new("builtin.integrity.broken", DataIntegrity, CLEAR + 13, &[
        "foreign key", "violates check constraint", "check constraint", "not null constraint", "violates not null",
        "null value in column", "integrity constraint violation", "referential integrity", "constraint violation",
        "constraint failed", "violates ~ constraint", "checksum mismatch", "checksum error", "checksum failed",
        "checksum", "checksums", "hash mismatch", "digest mismatch", "crc mismatch", "crc error", "crc32", "bad crc",
        "corrupt", "corrupted", "corruption", "corrupt data", "malformed database",
        "database disk image is malformed", "file is not a database", "file is encrypted or is not", "not a zip file",
        "bad zip file", "badzipfile", "not a gzip", "bad gzip", "invalid gzip", "zlib error",
        "incorrect header check", "invalid block type", "unexpected end of archive", "not a valid archive",
        "bad magic", "magic number", "invalid magic", "cannot identify image", "unicode decode error",
        "unicodedecodeerror", "codec can't decode", "can't decode byte", "invalid utf-8", "invalid utf8",
        "invalid continuation byte", "invalid start byte", "invalid byte sequence", "malformed utf", "undecodable",
        "unpickling", "pickle data was truncated", "could not deserialize", "invalid wire type", "protobuf ~ parse",
        "invalid protobuf", "replay mismatch", "nondeterminism", "non deterministic", "nondeterministic",
        "non determinism", "history mismatch", "determinism violation", "inconsistent state", "inconsistent data",
        "data loss", "data_loss", "dataloss", "integrity error", "integrityerror", "integrity check failed",
        "integrity violation", "poison message", "poison pill", "malformed record", "malformed message",
        "unknown magic byte", "invalid checkpoint", "checkpoint ~ not compatible", "incompatible checkpoint",
        "broken data", "invalid data found when processing", "truncated file", "truncated image",
        "image file is truncated", "file is truncated", "unexpected end of pdf", "eof marker not found",
        "pdf ~ damaged", "invalid pdf", "file is damaged", "failed to open pdf", "mismatched checksum",
        "sha256 mismatch", "does not match expected hash", "hash does not match", "signature of ~ does not match",
        "orphaned record", "dangling reference", "invalid foreign", "migration ~ mismatch", "dirty database version",
        "index corrupted", "garbage data",
    ])
    .unless(&[
        "unique constraint", "unique violation", "duplicate key", "duplicate entry", "signature does not match the",
        "bad state error invalid", "npm err",
    ])
    .note("constraints (PostgreSQL 23502, 23503, 23514), checksums, codecs, archives, replay mismatches (Temporal), \
         serialisation")
    .example("insert or update violates foreign key constraint \"orders_customer_fkey\""),
    Rule::new("builtin.integrity.codec", DataIntegrity, LIKELY + 9, &[
        "deserialize", "deserialization", "failed to deserialize", "cannot deserialize", "unable to deserialize",
        "unmarshal", "msgpack", "avro", "bad data", "bad state", "version mismatch", "invalid encoding", "parquet",
        "schema registry", "serialization exception", "deserializing", "deserialization error",
    ])
    .note("stored data that its codec refuses; a model's answer that does so speaks of JSON or a schema")
    .example("failed to deserialize checkpoint"),
    Rule::new("builtin.integrity.file", DataIntegrity, CLEAR - 2, &[
        "yaml ~ error", "yaml parser error", "yaml scanner error", "xml parse error", "xml syntax error",
        "not well formed", "mismatched tag", "csv error", "toml decode error", "invalid toml", "invalid yaml",
        "could not parse file", "failed to parse file", "error tokenizing data", "failed to parse config",
        "config file ~ parse",
    ])
    .at(&[Tool, Framework])
    .note("a stored file that its parser refuses")
    .example("yaml.scanner.ScannerError: YAML parser error at line 3"),
];
