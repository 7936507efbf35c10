use proptest::prelude::*;

use super::*;

/// Prefix, rest, kind. They are joined here so that no scanner takes this file for a leak.
const TOKENS: &[(&str, &str, &str)] = &[
    ("AKIA", "IOSFODNN7EXAMPLE", "aws_access_key_id"),
    ("ASIA", "Y34FZKBOKMUTVV7A", "aws_access_key_id"),
    ("aws_secret_access_key = ", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "aws_secret_key"),
    ("AWS_SECRET_ACCESS_KEY=", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "aws_secret_key"),
    ("\"SecretAccessKey\": \"", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "aws_secret_key"),
    ("AIza", "SyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY", "google_api_key"),
    ("ya29.", "a0AfH6SMBx2s8Yk3n5v7Q9w1e3r5t7y9", "google_oauth_token"),
    ("GOCSPX-", "1a2B3c4D5e6F7g8H9i0J1k2L3m4N", "google_client_secret"),
    (
        "AccountKey=",
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
        "azure_key",
    ),
    ("abc8", "Q~2f9d8a7s6d5f4g3h2j1k0l9q8w7e6r5t4y", "azure_client_secret"),
    (
        "https://acct.blob.core.windows.net/c?sv=2022-11-02&sig=",
        "Zk3Q7m1x9Yt2uV5wB8nC0aS4dF6gH1jK2lP3oI%3D",
        "url_signature",
    ),
    ("sk-", "proj-4fT9kQ2mZ8xW1vB7nC3aS5dF6gH0jK2lP4oI8uY6tR1eW3q", "openai_key"),
    ("sk-", "4fT9kQ2mZ8xW1vB7nC3aT3BlbkFJS5dF6gH0jK2lP4oI8uY6", "openai_key"),
    ("sk-ant-", "api03-4fT9kQ2mZ8xW1vB7nC3aS5dF6gH0jK2lP4oI8uY6tR1", "anthropic_key"),
    ("sk-or-", "v1-0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f6071", "openrouter_key"),
    ("hf_", "AbCdEfGhIjKlMnOpQrStUvWxYzAbCdEfGh", "huggingface_token"),
    ("gsk_", "4fT9kQ2mZ8xW1vB7nC3aS5dF6gH0jK2lP4oI8uY6tR1eW3qZ9xC1", "groq_key"),
    ("r8_", "4fT9kQ2mZ8xW1vB7nC3aS5dF6gH0jK2lP4oI8", "replicate_token"),
    ("pplx-", "4fT9kQ2mZ8xW1vB7nC3aS5dF6gH0jK2lP4oI8uY6tR1eW3qZ", "perplexity_key"),
    ("nvapi-", "4fT9kQ2mZ8xW1vB7nC3aS5dF6gH0jK2lP4oI8uY6tR1eW3qZ", "nvidia_key"),
    ("MISTRAL_API_KEY=", "4fT9kQ2mZ8xW1vB7nC3aS5dF6gH0jK2l", "api_key"),
    ("lsv2_", "pt_0a1b2c3d4e5f60718293a4b5c6d7e8f9_0a1b2c3d4e", "langsmith_key"),
    ("ghp_", "4fT9kQ2mZ8xW1vB7nC3aS5dF6gH0jK2lP4oI", "github_token"),
    ("gho_", "4fT9kQ2mZ8xW1vB7nC3aS5dF6gH0jK2lP4oI", "github_token"),
    ("ghs_", "4fT9kQ2mZ8xW1vB7nC3aS5dF6gH0jK2lP4oI", "github_token"),
    ("github_pat_", "11ABCDEFG0abcdefghijkl_4fT9kQ2mZ8xW1vB7nC3aS5dF6gH0jK2lP4oI8uY", "github_token"),
    ("glpat-", "4fT9kQ2mZ8xW1vB7nC3a", "gitlab_token"),
    ("npm_", "4fT9kQ2mZ8xW1vB7nC3aS5dF6gH0jK2lP4oI", "npm_token"),
    ("pypi-AgE", "IcHlwaS5vcmcCJDRmVDlrUTJtWjh4VzF2QjduQzNhUzVkRjZn", "pypi_token"),
    ("xoxb-", "2345678901-2345678901234-4fT9kQ2mZ8xW1vB7nC3aS5dF", "slack_token"),
    ("xapp-", "1-A0123456789-2345678901234-0a1b2c3d4e5f6071", "slack_token"),
    ("https://hooks.slack.com/", "services/T00000000/B00000000/4fT9kQ2mZ8xW1vB7nC3aS5dF", "webhook_url"),
    ("https://discord.com/api/webhooks/", "1234567890/4fT9kQ2mZ8xW1vB7nC3aS5dF", "webhook_url"),
    ("sk_live_", "4fT9kQ2mZ8xW1vB7nC3aS5dF", "stripe_key"),
    ("rk_test_", "4fT9kQ2mZ8xW1vB7nC3aS5dF", "stripe_key"),
    ("whsec_", "4fT9kQ2mZ8xW1vB7nC3aS5dF6gH0jK2l", "webhook_secret"),
    ("SK", "0a1b2c3d4e5f60718293a4b5c6d7e8f9", "twilio_key"),
    ("SG.", "4fT9kQ2mZ8xW1vB7nC3aS5.dF6gH0jK2lP4oI8uY6tR1eW3qZ9xC1vB7nC3aS5dF6", "sendgrid_key"),
    ("shpat_", "0a1b2c3d4e5f60718293a4b5c6d7e8f9", "shopify_token"),
    ("dop_v1_", "0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9", "digitalocean_token"),
    ("dapi", "0a1b2c3d4e5f60718293a4b5c6d7e8f9", "databricks_token"),
    ("hvs.", "CAESIJ4fT9kQ2mZ8xW1vB7nC3aS5dF6gH0jK2l", "vault_token"),
    ("123456789:AA", "H4fT9kQ2mZ8xW1vB7nC3aS5dF6gH0jK2lP", "telegram_token"),
    ("rdk_", "4fT9kQ2mZ8xW1vB7nC3aS5dF6gH0jK2lP4oI8uY6tR1", "redrive_key"),
    ("eyJ", "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U", "jwt"),
    (
        "-----BEGIN RSA PRIVATE ",
        "KEY-----\nMIIEowIBAAKCAQEAwJx3fT9k\nQ2mZ8xW1\n-----END RSA PRIVATE KEY-----",
        "private_key",
    ),
    ("-----BEGIN OPENSSH PRIVATE ", "KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAA", "private_key"),
    ("postgres://app:", "s3cr3t!@db.internal:5432/app", "url_password"),
    ("https://bot:", "4fT9kQ2mZ8@git.example.com/x.git", "url_password"),
    ("redis://:", "hunter2@cache:6379/0", "url_password"),
    ("Authorization: Bearer ", "4fT9kQ2mZ8xW1vB7", "authorization"),
    ("{'authorization': 'Basic ", "dXNlcjpwYXNzd29yZA=='}", "authorization"),
    ("authorization=Token ", "0a1b2c3d4e5f", "authorization"),
    (
        "Authorization: AWS4-HMAC-SHA256 ",
        "Credential=AKID/20260101/us-east-1/s3/aws4_request, Signature=0a1b2c",
        "authorization",
    ),
    ("sent with Bearer ", "4fT9kQ2mZ8xW1vB7nC3aS5dF", "bearer_token"),
    ("curl -H 'Basic ", "dXNlcjpwYXNzd29yZA=='", "basic_credentials"),
    ("Cookie: ", "session=4fT9kQ2mZ8; theme=dark", "cookie"),
    ("\"set-cookie\": \"", "sid=4fT9kQ2mZ8; Path=/; HttpOnly\"", "cookie"),
    ("x-api-key: ", "4fT9kQ2mZ8xW1vB7", "api_key"),
    ("host=db user=app password=", "hunter2 dbname=app", "password"),
    ("Server=db;User Id=sa;Password=", "S0me-Pass;Encrypt=yes", "password"),
    ("{\"password\": \"", "correct horse\"}", "password"),
    ("https://api.example.com/v1?access_token=", "4fT9kQ2mZ8xW1vB7&x=1", "access_token"),
    ("client_secret=", "4fT9kQ2mZ8xW1vB7", "secret"),
];

#[test]
fn known_secrets_are_masked_and_named() {
    for (prefix, rest, kind) in TOKENS {
        let secret = format!("{prefix}{rest}");
        for text in [secret.clone(), format!("request failed ({secret}) after 3 tries"), format!("a\n{secret}\nb")] {
            let masked = mask(&text);
            assert!(masked.contains(&mark(kind)), "{text}: {masked}");
            let kept = rest.split(['&', ';', ' ', '@', '"', '\'', '\n']).next().unwrap();
            assert!(!masked.contains(kept), "{text}: {masked}");
        }
    }
}

/// What errors, logs and payloads are full of and nobody may lose.
const ORDINARY: &[&str] = &[
    "550e8400-e29b-41d4-a716-446655440000",
    "req_8f3a91bc77d24e0f9a1b",
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "d41d8cd98f00b204e9800998ecf8427e",
    "commit 2fd4e1c67a2d28fced849ee1bb76e7391b93eb12",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==",
    "-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkq\n-----END CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A\n-----END PUBLIC KEY-----",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ4fT9kQ2mZ8xW1vB7nC3aS5dF6gH0jK2lP4oI8 me@host",
    "openai.APITimeoutError: Request timed out.",
    "Rate limit reached for gpt-5 on tokens per min (TPM): Limit 30000, Used 29120. Please try again in 2.4s.",
    "prompt is too long: 210412 tokens > 200000 maximum",
    "Incorrect API key provided: sk-proj-********abcd. You can find your API key at https://platform.openai.com/account/api-keys.",
    "Invalid API key",
    "api_key: Field required [type=missing, input_value={}, input_type=dict]",
    "The api_key client option must be set either by passing api_key to the client or by setting the OPENAI_API_KEY environment variable",
    "AuthenticationError: Error code: 401 - {'error': {'message': 'invalid x-api-key'}}",
    "Authorization failed",
    "authorization header is missing",
    "Authorization: required",
    "Authorization header must be 'Bearer <token>'",
    "WWW-Authenticate: Bearer realm=\"api\", error=\"invalid_token\"",
    "Bearer authentication failed",
    "Bearer token is expired",
    "Basic authentication is disabled",
    "Basic Auth required",
    "401 Unauthorized: token expired at 2026-01-02T03:04:05Z",
    "Unexpected token < in JSON at position 0",
    "Unexpected token '}' at line 12",
    "SyntaxError: Unexpected token: 'export1234567890abcdef'",
    "max_tokens=4096",
    "next_page_token=CAoQAA1234567890abcdef",
    "nextToken=4fT9kQ2mZ8xW1vB7nC3a",
    "continuation_token: 4fT9kQ2mZ8xW1vB7nC3a",
    "token=abc",
    "input_tokens: 900, output_tokens: 20",
    "password authentication failed for user \"app\"",
    "Password: must be at least 8 characters",
    "password must contain a digit",
    "password=None",
    "password=***",
    "password='********'",
    "password=${DB_PASSWORD}",
    "password=$DB_PASSWORD",
    "password=<password>",
    "password=%s",
    "password=",
    "PWD=/home/app/service1",
    "OLDPWD=/srv/app2",
    "cat: /etc/passwd: Permission denied",
    "auth::password::verify_v2 panicked",
    "if password == stored_2025",
    "secret_name=prod-db-2",
    "SecretsManager: secret arn:aws:secretsmanager:us-east-1:123456789012:secret:prod/db-AbCdEf not found",
    "arn:aws:iam::123456789012:role/agent-runner",
    "arn:aws:lambda:us-east-1:123456789012:function:charge",
    "s3://bucket/prefix/2026/01/02/part-00001.parquet",
    "https://example.com/path?page=2&sort=name",
    "https://user@example.com/path",
    "https://example.com:8443/@scope/package",
    "git@github.com:org/repo.git",
    "ssh://git@github.com:22/org/repo.git",
    "http://[::1]:8080/health",
    "postgres://app@db.internal:5432/app",
    "postgres://app:***@db.internal/app",
    "mailto:someone@example.com",
    "npm_config_registry=https://registry.npmjs.org/",
    "npm ERR! code ELIFECYCLE",
    "pypi-publish step failed",
    "ghp_ is the prefix of a token",
    "hf_hub_download failed",
    "HF_HUB_OFFLINE=1",
    "gsk_feature",
    "sk-learn is a package",
    "task-0123456789abcdef0123456789abcdef",
    "risk-assessment-2026-q1-final-version-3",
    "disk-0a1b2c3d4e5f60718293",
    "desk_live_view_enabled",
    "SKU1234567890",
    "SKIP 0a1b2c",
    "MSG.header.value",
    "AKIA is how an access key id begins",
    "ASIAPACIFIC",
    "AIzawa et al. 2019",
    "eyJhIjoxfQ==",
    "eyJjdXJzb3IiOiIxMjM0NTY3ODkwIn0",
    "cursor=eyJvZmZzZXQiOjEwMCwibGltaXQiOjUwfQ",
    "xoxo",
    "https://hooks.slack.com/",
    "https://slack.com/api/chat.postMessage",
    "cookie expired",
    "Cookies must be enabled",
    "Set-Cookie header missing",
    "cookie: none",
    "cookie_policy=strict",
    "KeyError: 'invoice_4711'",
    "TypeError: Cannot read properties of undefined (reading 'map')",
    "ConnectionRefusedError: [Errno 111] Connection refused: ('10.0.12.7', 5432)",
    "psycopg.errors.UniqueViolation: duplicate key value violates unique constraint \"orders_pkey\" DETAIL: Key (id)=(99182) already exists.",
    "File \"/usr/lib/python3.12/site-packages/openai/_client.py\", line 1047, in request",
    "    at Object.<anonymous> (/app/src/index.ts:42:13)",
    "java.lang.NullPointerException: Cannot invoke \"String.length()\" because \"s\" is null",
    "thread 'main' panicked at src/main.rs:10:5: index out of bounds: the len is 3 but the index is 7",
    "CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 79.15 GiB total capacity)",
    "toolu_01A09q90qw90lq917835lq9",
    "call_4fT9kQ2mZ8xW1vB7nC3aS5dF",
    "chatcmpl-9x8w7v6u5t4s3r2q1p0o",
    "msg_01XFDUDYJgAACzvnptvVoYEL",
    "asst_abc123def456ghi789jkl012",
    "thread_abc123def456ghi789jkl012",
    "file-abc123def456ghi789jkl012",
    "ft:gpt-4o-mini:acme::9x8w7v6u",
    "pi_3MtwBwLkdIwHu7ix28a3tqPa",
    "cus_NffrFeUfNV2Hib",
    "evt_1NG8Du2eZvKYlo2CUI79vXWy",
    "pk_live_4fT9kQ2mZ8xW1vB7nC3aS5dF",
    "AC0a1b2c3d4e5f60718293a4b5c6d7e8f9",
    "01HZX3V7Q2M8K4N6P9R1S5T7W9",
    "1-67891233-abcdef012345678912345678",
    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "l1a-2-3-9f8e7d6c5b4a3210",
    "2026-11-18T15:10:41.123Z",
    "192.168.0.1:8080",
    "2001:db8::ff00:42:8329",
    "user@example.com",
    "+49 170 1234567",
    "DE89 3704 0044 0532 0130 00",
    "4111 1111 1111 1111",
    "{\"model\":\"gpt-5\",\"messages\":[{\"role\":\"user\",\"content\":\"How do I reset my password?\"}]}",
    "Zażółć gęślą jaźń",
    "日本語のエラー: パスワードが違います",
    "[redacted:github_token]",
    "Authorization: Bearer [redacted:authorization]",
    "postgres://app:[redacted:url_password]@db/app",
    "password=[redacted:password]",
    "",
];

#[test]
fn ordinary_texts_do_not_change() {
    assert!(ORDINARY.len() >= 100, "{}", ORDINARY.len());
    for text in ORDINARY {
        assert_eq!(mask(text), *text);
    }
}

#[test]
fn only_the_secret_part_is_replaced() {
    for (text, masked) in [
        ("postgres://app:s3cr3t@db/app?x=1", "postgres://app:[redacted:url_password]@db/app?x=1"),
        ("Authorization: Bearer abcdef123456, retry", "Authorization: Bearer [redacted:authorization], retry"),
        ("user=a password=hunter2 dbname=c", "user=a password=[redacted:password] dbname=c"),
        ("Cookie: a=b; c=d\nHost: x", "Cookie: [redacted:cookie]\nHost: x"),
    ] {
        assert_eq!(mask(text), masked);
    }
}

#[test]
fn texts_keep_their_other_bytes() {
    let token = format!("ghp_{}", "4fT9kQ2mZ8xW1vB7nC3aS5dF6gH0jK2lP4oI");
    let sent = format!(r#""half \ud83d, {token}\n, pair \ud83d\ude00, slash \/, \u0067{}""#, &token[1..]);
    let masked = mask_text(&Text::from_token(sent).unwrap()).unwrap();
    let expected = r#""half \ud83d, [redacted:github_token]\n, pair \ud83d\ude00, slash \/, [redacted:github_token]""#;
    assert_eq!(masked.token(), expected);
    assert_eq!(mask_text(&masked), None);
    assert_eq!(mask_text(&Text::from("plain \n text")), None);
}

#[test]
fn headers_with_credentials_are_masked_whole() {
    let pairs =
        [("Authorization", "x"), ("set-cookie", "a=b"), ("retry-after", "7"), ("x-note", "sk_live_4fT9kQ2mZ8xW1vB7")];
    let mut headers: BTreeMap<String, Text> = pairs.map(|(name, value)| (name.to_owned(), Text::from(value))).into();
    let masked = mask_headers(&mut headers);
    let shown: Vec<String> = headers.iter().map(|(name, value)| format!("{name}={}", value.decode())).collect();
    assert_eq!(
        shown,
        [
            "Authorization=[redacted:authorization]",
            "retry-after=7",
            "set-cookie=[redacted:cookie]",
            "x-note=[redacted:stripe_key]"
        ]
    );
    assert_eq!(masked.len(), 3);
    assert!(mask_headers(&mut headers).is_empty());
}

fn redactor(secrets: bool, keys: &[&str], pointers: &[&str]) -> Redactor {
    let owned = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect();
    Redactor { secrets, keys: owned(keys), pointers: owned(pointers) }
}

#[test]
fn json_is_masked_by_key_pointer_and_shape() {
    let by = redactor(true, &["ssn", "PIN"], &["/customer/email", "/items/1", "/a~1b"]);
    let token = format!("ghp_{}", "4fT9kQ2mZ8xW1vB7nC3aS5dF6gH0jK2lP4oI");
    let text = format!(
        r#"{{ "n": 1.50, "customer":{{"email":"a@b.c","Ssn":{{"deep":[1,2]}}}}, "items":[1,{{"x":2}},3],"a/b":null,
        "note":"see {token}", "pin":7,"db":{{"password":"hunter2"}} }}"#
    );
    let (masked, parts) = by.json(&text).unwrap();
    let expected = r#"{ "n": 1.50, "customer":{"email":"[redacted:pointer]","Ssn":"[redacted:key]"}, "items":[1,"[redacted:pointer]",3],"a/b":"[redacted:pointer]",
        "note":"see [redacted:github_token]", "pin":"[redacted:key]","db":{"password":"[redacted:password]"} }"#;
    assert_eq!(masked, expected);
    let listed: Vec<String> = parts.iter().map(|part| format!("{} {}", part.at, part.kind)).collect();
    assert_eq!(
        listed,
        [
            "/customer/email pointer",
            "/customer/Ssn key",
            "/items/1 pointer",
            "/a~1b pointer",
            "/note github_token",
            "/pin key",
            "/db/password password"
        ]
    );
    assert_eq!(by.json(&masked), None, "once is enough");
    assert_eq!(redactor(true, &[], &[]).json(r#"{"a":[1,"b"]}"#), None);
    assert_eq!(redactor(false, &["a"], &[]).json(r#"{"b":{"c":1}}"#), None);
}

#[test]
fn depth_and_escapes_hide_nothing_in_json() {
    let by = redactor(true, &["ssn"], &[]);
    let deep = format!("{}{}{}", "[".repeat(100_000), r#"{"ssn":1}"#, "]".repeat(100_000));
    assert!(by.json(&deep).unwrap().0.contains(r#"{"ssn":"[redacted:key]"}"#));
    let escaped = r#"{"s\u0073n":"1","x":"\u0067hp_4fT9kQ2mZ8xW1vB7nC3aS5dF6gH0jK2lP4oI"}"#;
    assert_eq!(by.json(escaped).unwrap().0, r#"{"s\u0073n":"[redacted:key]","x":"[redacted:github_token]"}"#);
    let bytes = by.bytes(br#"{"SSN":1}"#).unwrap().0;
    assert_eq!(bytes, br#"{"SSN":"[redacted:key]"}"#);
    assert_eq!(by.bytes(&[0xff, 0xfe]), None);
}

#[test]
fn an_edited_page_gets_its_secrets_back() {
    let token = |n: u8| format!("ghp_{n}{}", "4fT9kQ2mZ8xW1vB7nC3aS5dF6gH0jK2lP4oI");
    let (one, two) = (token(1), token(2));
    let original = format!(r#"{{"a":"{one}","list":["{two}"],"note":"see {one}","n":1}}"#);
    let shown = shown_json(&original);
    assert!(!shown.contains("ghp_"), "{shown}");
    assert_eq!(restore(&shown, &original), original);
    let edited = shown.replace(r#""n":1"#, r#""n":2"#);
    assert_eq!(restore(&edited, &original), original.replace(r#""n":1"#, r#""n":2"#));
    // What moved and could be either of two stays marked.
    let moved = edited.replace(r#"["[redacted"#, r#"[0,"[redacted"#);
    assert!(has_mark(&restore(&moved, &original)));
    assert_eq!(restore("[1]", "[2]"), "[1]");
}

/// Texts out of pieces that shapes are made of.
fn pieces() -> impl Strategy<Value = String> {
    let anchors: Vec<String> = TOKENS.iter().flat_map(|(a, b, _)| [(*a).to_owned(), (*b).to_owned()]).collect();
    let glue =
        prop::sample::select(vec!["", " ", "=", ": ", "\"", "'", "\\", "\n", "@", "/", ".", "-", "_", ",", "é", "x1"]);
    let piece = prop_oneof![prop::sample::select(anchors), "[A-Za-z0-9._=:/@-]{0,40}", ".{0,10}"];
    prop::collection::vec((piece, glue), 0..8).prop_map(|all| all.into_iter().map(|(a, b)| a + b).collect())
}

proptest! {
    #[test]
    fn masking_is_idempotent_and_leaves_no_secret(text in pieces()) {
        let once = mask(&text).into_owned();
        prop_assert_eq!(mask(&once), once.as_str());
        prop_assert!(secrets(&once).is_empty(), "{}", once);
    }

    #[test]
    fn a_masked_token_stays_a_token(text in pieces()) {
        let token = Text::from(text.as_str());
        let masked = mask_text(&token).unwrap_or(token);
        prop_assert!(secrets(&masked.decode()).is_empty());
        prop_assert_eq!(mask_text(&masked), None);
    }

    #[test]
    fn redacted_json_is_json_without_secrets(text in pieces(), key in "[a-z]{1,3}") {
        let json = serde_json::json!({ key: [text, {"k": 1, "j": {"x": text}}] }).to_string();
        let by = redactor(true, &["k"], &[]);
        let masked = by.json(&json).map_or(json, |(masked, _)| masked);
        prop_assert!(serde_json::from_str::<serde_json::Value>(&masked).is_ok(), "{}", masked);
        prop_assert_eq!(by.json(&masked), None);
    }

    #[test]
    fn any_text_is_read_without_a_panic(text in "\\PC{0,200}") {
        let _ = mask(&text);
    }
}
