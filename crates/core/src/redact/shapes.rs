//! Well-known secret shapes. One pass of an automaton finds the anchors (`ghp_`, `://`, `authorization`); what stands around
//! an anchor is then checked by hand, so a text without anchors costs one pass, and no text costs more than a few.

use std::cell::Cell;
use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};

/// How a mark begins; what begins with it is masked already.
pub(super) const MARK_START: &str = "[redacted:";

/// A secret in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundSecret {
    pub span: Range<usize>,
    pub kind: &'static str,
}

/// The letters that a token consists of.
#[derive(Debug, Clone, Copy)]
enum Alphabet {
    Alnum,
    /// With `_` and `-`.
    Word,
    /// With `_`, `-` and `.`.
    Dotted,
    Hex,
    Upper,
    /// With `+`, `/`, `=`, `_` and `-`.
    Base64,
}

impl Alphabet {
    fn has(self, byte: u8) -> bool {
        match self {
            Self::Alnum => byte.is_ascii_alphanumeric(),
            Self::Word => byte.is_ascii_alphanumeric() || b"_-".contains(&byte),
            Self::Dotted => byte.is_ascii_alphanumeric() || b"_-.".contains(&byte),
            Self::Hex => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
            Self::Upper => byte.is_ascii_digit() || byte.is_ascii_uppercase(),
            Self::Base64 => byte.is_ascii_alphanumeric() || b"+/=_-".contains(&byte),
        }
    }
}

/// What has to stand around an anchor.
#[derive(Clone, Copy)]
enum SecretRule {
    /// The anchor begins a token: at least so many letters follow.
    Token(Alphabet, usize),
    /// The same, with letters and digits among the first ones: the anchor alone is too common.
    Mixed(Alphabet, usize),
    /// The same, with exactly so many letters.
    Exact(Alphabet, usize),
    /// The anchor ends a name, and a value of at least so many bytes is assigned to it.
    Assigned(Value, usize),
    /// Everything after the anchor up to a space or quote.
    Path,
    Custom(fn(&Scan<'_>, Range<usize>) -> Option<Range<usize>>),
}

/// Which values a name must have to be a secret.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Value {
    /// Any, after `=` or in quotes.
    Any,
    /// Letters and digits mixed.
    Mixed,
    /// The same, and the name is a word of its own: `token`, not `next_token`.
    MixedWord,
}

struct SecretShape {
    anchor: &'static str,
    kind: &'static str,
    rule: SecretRule,
}

const fn shape(anchor: &'static str, kind: &'static str, rule: SecretRule) -> SecretShape {
    SecretShape { anchor, kind, rule }
}

use Alphabet::{Alnum, Base64, Dotted, Hex, Upper, Word};
use SecretRule::{Assigned, Custom, Exact, Mixed, Path, Token};

/// Anchors are found in any case; tokens must have the case given here.
const SHAPES: &[SecretShape] = &[
    shape("AKIA", "aws_access_key_id", Exact(Upper, 16)),
    shape("ASIA", "aws_access_key_id", Exact(Upper, 16)),
    shape("ABIA", "aws_access_key_id", Exact(Upper, 16)),
    shape("ACCA", "aws_access_key_id", Exact(Upper, 16)),
    shape("secret_access_key", "aws_secret_key", Assigned(Value::Mixed, 30)),
    shape("secretaccesskey", "aws_secret_key", Assigned(Value::Mixed, 30)),
    shape("aws_secret_key", "aws_secret_key", Assigned(Value::Mixed, 30)),
    shape("session_token", "aws_session_token", Assigned(Value::Mixed, 40)),
    shape("sessiontoken", "aws_session_token", Assigned(Value::Mixed, 40)),
    shape("security-token", "aws_session_token", Assigned(Value::Mixed, 40)),
    shape("x-amz-signature", "url_signature", Assigned(Value::Mixed, 32)),
    shape("AIza", "google_api_key", Token(Word, 33)),
    shape("ya29.", "google_oauth_token", Token(Word, 20)),
    shape("GOCSPX-", "google_client_secret", Token(Word, 20)),
    shape("accountkey", "azure_key", Assigned(Value::Mixed, 40)),
    shape("sharedaccesskey", "azure_key", Assigned(Value::Mixed, 40)),
    shape("q~", "azure_client_secret", Custom(azure_client_secret)),
    shape("sig", "url_signature", Assigned(Value::MixedWord, 30)),
    shape("sk-ant-", "anthropic_key", Token(Word, 16)),
    shape("sk-or-", "openrouter_key", Token(Word, 16)),
    shape("sk-lf-", "langfuse_key", Token(Word, 16)),
    shape("sk-", "openai_key", Mixed(Word, 20)),
    shape("sess-", "openai_key", Mixed(Alnum, 30)),
    shape("hf_", "huggingface_token", Token(Alnum, 30)),
    shape("api_org_", "huggingface_token", Token(Alnum, 30)),
    shape("gsk_", "groq_key", Mixed(Alnum, 30)),
    shape("xai-", "xai_key", Mixed(Alnum, 40)),
    shape("r8_", "replicate_token", Mixed(Alnum, 30)),
    shape("pplx-", "perplexity_key", Mixed(Alnum, 30)),
    shape("nvapi-", "nvidia_key", Mixed(Word, 30)),
    shape("tgp_v1_", "together_key", Mixed(Word, 30)),
    shape("csk-", "cerebras_key", Mixed(Alnum, 30)),
    shape("tvly-", "tavily_key", Mixed(Word, 20)),
    shape("lsv2_", "langsmith_key", Mixed(Word, 30)),
    shape("pcsk_", "pinecone_key", Mixed(Word, 30)),
    shape("e2b_", "e2b_key", Exact(Hex, 40)),
    shape("sk_", "api_key", Exact(Hex, 48)),
    shape("ghp_", "github_token", Token(Alnum, 30)),
    shape("gho_", "github_token", Token(Alnum, 30)),
    shape("ghu_", "github_token", Token(Alnum, 30)),
    shape("ghs_", "github_token", Token(Dotted, 30)),
    shape("ghr_", "github_token", Token(Alnum, 30)),
    shape("github_pat_", "github_token", Token(Word, 22)),
    shape("glpat-", "gitlab_token", Token(Dotted, 20)),
    shape("gldt-", "gitlab_token", Token(Dotted, 20)),
    shape("glrt-", "gitlab_token", Token(Dotted, 20)),
    shape("glcbt-", "gitlab_token", Token(Dotted, 20)),
    shape("glptt-", "gitlab_token", Token(Dotted, 20)),
    shape("glft-", "gitlab_token", Token(Dotted, 20)),
    shape("glsoat-", "gitlab_token", Token(Dotted, 20)),
    shape("glagent-", "gitlab_token", Token(Dotted, 20)),
    shape("npm_", "npm_token", Mixed(Alnum, 36)),
    shape("pypi-AgE", "pypi_token", Token(Word, 30)),
    shape("rubygems_", "rubygems_key", Exact(Hex, 48)),
    shape("dckr_pat_", "docker_token", Token(Word, 20)),
    shape("xoxb-", "slack_token", Mixed(Word, 10)),
    shape("xoxp-", "slack_token", Mixed(Word, 10)),
    shape("xoxa-", "slack_token", Mixed(Word, 10)),
    shape("xoxr-", "slack_token", Mixed(Word, 10)),
    shape("xoxs-", "slack_token", Mixed(Word, 10)),
    shape("xoxe-", "slack_token", Mixed(Word, 10)),
    shape("xoxe.xox", "slack_token", Mixed(Word, 10)),
    shape("xapp-", "slack_token", Mixed(Word, 10)),
    shape("hooks.slack.com/", "webhook_url", Path),
    shape("discord.com/api/webhooks/", "webhook_url", Path),
    shape("discordapp.com/api/webhooks/", "webhook_url", Path),
    shape("webhook.office.com/", "webhook_url", Path),
    shape("hooks.zapier.com/", "webhook_url", Path),
    shape("sk_live_", "stripe_key", Token(Alnum, 10)),
    shape("sk_test_", "stripe_key", Token(Alnum, 10)),
    shape("rk_live_", "stripe_key", Token(Alnum, 10)),
    shape("rk_test_", "stripe_key", Token(Alnum, 10)),
    shape("whsec_", "webhook_secret", Token(Base64, 20)),
    shape("SK", "twilio_key", Exact(Hex, 32)),
    shape("SG.", "sendgrid_key", Custom(sendgrid)),
    shape("shpat_", "shopify_token", Exact(Hex, 32)),
    shape("shpss_", "shopify_token", Exact(Hex, 32)),
    shape("shpca_", "shopify_token", Exact(Hex, 32)),
    shape("shppa_", "shopify_token", Exact(Hex, 32)),
    shape("sq0atp-", "square_token", Token(Word, 20)),
    shape("sq0csp-", "square_token", Token(Word, 20)),
    shape("dop_v1_", "digitalocean_token", Exact(Hex, 64)),
    shape("doo_v1_", "digitalocean_token", Exact(Hex, 64)),
    shape("dapi", "databricks_token", Exact(Hex, 32)),
    shape("sbp_", "supabase_token", Exact(Hex, 40)),
    shape("sb_secret_", "supabase_token", Token(Word, 20)),
    shape("hvs.", "vault_token", Token(Word, 20)),
    shape("hvb.", "vault_token", Token(Word, 20)),
    shape("ATATT3", "atlassian_token", Token(Base64, 30)),
    shape("glsa_", "grafana_token", Mixed(Word, 30)),
    shape("sntrys_", "sentry_token", Token(Base64, 30)),
    shape("sntryu_", "sentry_token", Exact(Hex, 64)),
    shape("lin_api_", "linear_key", Token(Alnum, 30)),
    shape("ntn_", "notion_token", Mixed(Alnum, 40)),
    shape("secret_", "notion_token", Mixed(Alnum, 43)),
    shape("figd_", "figma_token", Mixed(Word, 30)),
    shape("PMAK-", "postman_key", Mixed(Word, 30)),
    shape("NRAK-", "newrelic_key", Token(Upper, 20)),
    shape("pscale_tkn_", "planetscale_token", Token(Dotted, 30)),
    shape("pscale_pw_", "planetscale_token", Token(Dotted, 30)),
    shape("AGE-SECRET-KEY-1", "age_key", Token(Upper, 40)),
    shape(":AA", "telegram_token", Custom(telegram)),
    shape("rdk_", "redrive_key", Token(Word, 20)),
    shape("eyJ", "jwt", Custom(jwt)),
    shape("-----begin ", "private_key", Custom(pem)),
    shape("://", "url_password", Custom(url_password)),
    shape("authorization", "authorization", Custom(authorization)),
    shape("bearer", "bearer_token", Custom(bearer)),
    shape("basic ", "basic_credentials", Custom(basic)),
    shape("cookie", "cookie", Custom(cookie)),
    shape("password", "password", Assigned(Value::Any, 3)),
    shape("passwd", "password", Assigned(Value::Any, 3)),
    shape("passphrase", "password", Assigned(Value::Any, 3)),
    shape("pwd", "password", Custom(pwd)),
    shape("api_key", "api_key", Assigned(Value::Mixed, 12)),
    shape("api-key", "api_key", Assigned(Value::Mixed, 12)),
    shape("apikey", "api_key", Assigned(Value::Mixed, 12)),
    shape("access_token", "access_token", Assigned(Value::Mixed, 12)),
    shape("access-token", "access_token", Assigned(Value::Mixed, 12)),
    shape("accesstoken", "access_token", Assigned(Value::Mixed, 12)),
    shape("refresh_token", "access_token", Assigned(Value::Mixed, 12)),
    shape("refreshtoken", "access_token", Assigned(Value::Mixed, 12)),
    shape("id_token", "access_token", Assigned(Value::Mixed, 12)),
    shape("auth_token", "access_token", Assigned(Value::Mixed, 12)),
    shape("auth-token", "access_token", Assigned(Value::Mixed, 12)),
    shape("authtoken", "access_token", Assigned(Value::Mixed, 12)),
    shape("secret", "secret", Assigned(Value::Mixed, 10)),
    shape("secret_key", "secret", Assigned(Value::Mixed, 10)),
    shape("secretkey", "secret", Assigned(Value::Mixed, 10)),
    shape("private_key", "secret", Assigned(Value::Mixed, 16)),
    shape("token", "access_token", Assigned(Value::MixedWord, 16)),
];

static ANCHORS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    let anchors = SHAPES.iter().map(|shape| shape.anchor);
    AhoCorasick::builder().ascii_case_insensitive(true).kind(Some(AhoCorasickKind::DFA)).build(anchors).ok()
});

/// How far a value is read to decide about it.
const READ_BYTES: usize = 64;
/// How far the authority of a URL is read.
const AUTHORITY_BYTES: usize = 1_024;

/// Whether `text` may hold a secret: one pass, and false for most texts.
pub(super) fn has_anchor(text: &str) -> bool {
    ANCHORS.as_ref().is_none_or(|anchors| anchors.is_match(text))
}

/// The secrets of a text in order; none overlaps another.
pub(super) fn find(text: &str) -> Vec<FoundSecret> {
    let mut found: Vec<FoundSecret> = Vec::new();
    let Some(anchors) = ANCHORS.as_ref() else { return found };
    let scan = Scan::new(text);
    for anchor in anchors.find_overlapping_iter(text) {
        // Inside of a secret that was found, its end is known. A longer anchor names its kind better: `sk-`, `sk-ant-`.
        let is_inside = |last: &FoundSecret| anchor.end() <= last.span.end && anchor.start() != last.span.start;
        if found.last().is_some_and(is_inside) {
            continue;
        }
        let Some(shape) = SHAPES.get(anchor.pattern().as_usize()) else { continue };
        let Some(span) = scan.check(shape, anchor.range()) else { continue };
        add(&mut found, FoundSecret { span, kind: shape.kind });
    }
    found
}

/// A secret that begins inside or in front of the last ones takes their place; the first kind stays.
fn add(found: &mut Vec<FoundSecret>, mut new: FoundSecret) {
    while let Some(last) = found.last() {
        if last.span.end <= new.span.start {
            break;
        }
        let within = last.span.start < new.span.start;
        new.span = last.span.start.min(new.span.start)..last.span.end.max(new.span.end);
        if within {
            new.kind = last.kind;
        }
        found.pop();
    }
    found.push(new);
}

/// The kind of secret that a member or header of this name holds, whatever its value: credentials by definition.
pub(super) fn secret_header(name: &str) -> Option<&'static str> {
    const NAMES: &[(&str, &str)] = &[
        ("authorization", "authorization"),
        ("proxy-authorization", "authorization"),
        ("x-authorization", "authorization"),
        ("cookie", "cookie"),
        ("set-cookie", "cookie"),
        ("x-api-key", "api_key"),
        ("api-key", "api_key"),
        ("x-goog-api-key", "api_key"),
        ("x-auth-token", "access_token"),
        ("x-access-token", "access_token"),
        ("x-vault-token", "vault_token"),
        ("x-gitlab-token", "gitlab_token"),
        ("x-amz-security-token", "aws_session_token"),
    ];
    NAMES.iter().find(|(header, _)| header.eq_ignore_ascii_case(name)).map(|(_, kind)| *kind)
}

/// The kind of secret that `value` is as the value of a member called `name`.
pub(super) fn assigned_to(name: &str, value: &str) -> Option<&'static str> {
    if value.starts_with(MARK_START) {
        return None;
    }
    let scan = Scan::new(name);
    let fits = |shape: &&SecretShape| match shape.rule {
        SecretRule::Assigned(of, least) => {
            let start = name.len().checked_sub(shape.anchor.len());
            let ends =
                start.and_then(|start| name.get(start..)).is_some_and(|end| end.eq_ignore_ascii_case(shape.anchor));
            ends && scan.name_may_begin(of, start.unwrap_or_default()) && is_value(of, least, value.as_bytes())
        }
        SecretRule::Token(..)
        | SecretRule::Mixed(..)
        | SecretRule::Exact(..)
        | SecretRule::Path
        | SecretRule::Custom(_) => false,
    };
    SHAPES.iter().find(fits).map(|shape| shape.kind)
}

struct Scan<'a> {
    text: &'a str,
    bytes: &'a [u8],
    /// No private key ends after the ones that were read.
    no_pem_end: Cell<bool>,
}

/// Where an assigned value begins.
#[derive(Clone, Copy)]
struct AssignedValue {
    start: usize,
    quote: Option<u8>,
    by_equals: bool,
    /// The name is in quotes, as in JSON.
    name_quoted: bool,
}

impl<'a> Scan<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, bytes: text.as_bytes(), no_pem_end: Cell::new(false) }
    }

    /// Decides by a bounded number of bytes; only what is a secret is read to its end.
    fn check(&self, shape: &SecretShape, at: Range<usize>) -> Option<Range<usize>> {
        let begins = || self.text.get(at.clone()) == Some(shape.anchor) && !self.is_inside_word(at.start);
        match shape.rule {
            SecretRule::Token(of, least) => {
                (begins() && self.is_run(at.end, of, least)).then(|| at.start..self.run(at.end, of))
            }
            SecretRule::Mixed(of, least) => {
                let fits = begins() && self.is_run(at.end, of, least) && is_mixed(self.read(at.end));
                fits.then(|| at.start..self.run(at.end, of))
            }
            SecretRule::Exact(of, most) => {
                let end = self.run_to(at.end, of, most + 1);
                let ends = !self.bytes.get(end).is_some_and(u8::is_ascii_alphanumeric);
                (begins() && end - at.end == most && ends).then_some(at.start..end)
            }
            SecretRule::Assigned(of, least) => {
                let value = self.name_may_begin(of, at.start).then(|| self.assigned(at.end)).flatten()?;
                self.is_secret_value(value, of, least).then(|| value.start..self.value_end(value, usize::MAX))
            }
            SecretRule::Path => {
                let end = self.until(at.end, b"?#)]}>,;", usize::MAX);
                let path = self.text.get(at.end..end)?;
                (path.len() >= 8 && !path.starts_with(MARK_START)).then_some(at.end..end)
            }
            SecretRule::Custom(verify) => verify(self, at),
        }
    }

    fn before(&self, at: usize) -> Option<u8> {
        self.bytes.get(at.checked_sub(1)?).copied()
    }

    fn is_inside_word(&self, at: usize) -> bool {
        self.before(at).is_some_and(|byte| byte.is_ascii_alphanumeric())
    }

    /// The end of the run of letters from `at` on. A full stop at its end belongs to the sentence.
    fn run(&self, at: usize, of: Alphabet) -> usize {
        let end = self.run_to(at, of, usize::MAX);
        let full_stops = self.bytes[at..end].iter().rev().take_while(|byte| **byte == b'.').count();
        end - full_stops
    }

    fn run_to(&self, at: usize, of: Alphabet, most: usize) -> usize {
        at + self.bytes[at..].iter().take(most).take_while(|byte| of.has(**byte)).count()
    }

    fn is_run(&self, at: usize, of: Alphabet, least: usize) -> bool {
        self.run_to(at, of, least) - at == least
    }

    /// The next bytes, as far as a decision needs them.
    fn read(&self, at: usize) -> &[u8] {
        let end = self.bytes.len().min(at + READ_BYTES);
        &self.bytes[at..end]
    }

    /// How many of the next bytes, at most `most`, are among `any`.
    fn count(&self, at: usize, any: &[u8], most: usize) -> usize {
        self.bytes[at..].iter().take(most).take_while(|byte| any.contains(byte)).count()
    }

    /// Up to white space, a quote, a backslash or one of `ends`, at most `most` bytes.
    fn until(&self, at: usize, ends: &[u8], most: usize) -> usize {
        let stops = |byte: &u8| byte.is_ascii_whitespace() || b"\"'`\\<".contains(byte) || ends.contains(byte);
        at + self.bytes[at..].iter().take(most).take_while(|byte| !stops(byte)).count()
    }

    fn name_may_begin(&self, of: Value, at: usize) -> bool {
        of != Value::MixedWord || !self.before(at).is_some_and(|byte| Word.has(byte))
    }

    /// The value that is assigned to the name which ends at `at`: `name=value`, `"name": "value"`, `name => 'value'`.
    fn assigned(&self, at: usize) -> Option<AssignedValue> {
        let quotes = self.count(at, b"\\\"'`", 4);
        // `headers['x-api-key'] = …`
        let name_end = at + quotes + if quotes > 0 { self.count(at + quotes, b"]", 1) } else { 0 };
        let sign = name_end + self.count(name_end, b" \t", 4);
        let behind = sign + self.count(sign, b"=:>", 3);
        let by_equals = match self.bytes.get(sign..behind)? {
            b"=" | b"=>" | b":=" => true,
            b":" => false,
            _ => return None,
        };
        let spaces = behind + self.count(behind, b" \t", 4);
        let start = spaces + self.count(spaces, b"\\\"'`", 6);
        let quote = self.before(start).filter(|byte| start > spaces && b"\"'`".contains(byte));
        // `password = …` in a sentence or a line of code is no value unless it is in quotes.
        Some(AssignedValue { start, quote, by_equals: by_equals && spaces == behind, name_quoted: quotes > 0 })
    }

    fn value_end(&self, value: AssignedValue, most: usize) -> usize {
        let Some(quote) = value.quote else { return self.until(value.start, b",;&)}]>|", most) };
        let stops = |byte: &u8| *byte == quote || b"\n\\".contains(byte);
        value.start + self.bytes[value.start..].iter().take(most).take_while(|byte| !stops(byte)).count()
    }

    fn is_secret_value(&self, value: AssignedValue, of: Value, least: usize) -> bool {
        let head = &self.bytes[value.start..self.value_end(value, READ_BYTES)];
        let quoted = value.quote.is_some() && (value.name_quoted || of != Value::MixedWord);
        let looks_like_one = of == Value::Any && head.len() >= 6 && is_mixed(head);
        let told = of == Value::Mixed || value.by_equals || quoted || looks_like_one;
        told && is_value(of, least, head)
    }
}

/// `head` is the value, or as much of it as a decision needs.
fn is_value(of: Value, least: usize, head: &[u8]) -> bool {
    let whole = head.len() >= least && !head.starts_with(MARK_START.as_bytes()) && !is_placeholder(head);
    whole
        && match of {
            Value::Any => true,
            Value::Mixed | Value::MixedWord => is_mixed(head) && head.iter().take(least).all(u8::is_ascii_graphic),
        }
}

/// `None`, `***`, `<your key>`, `${KEY}`, `%s`: nothing that opens anything.
fn is_placeholder(value: &[u8]) -> bool {
    const WORDS: &[&[u8]] = &[b"none", b"null", b"nil", b"true", b"false", b"undefined", b"password", b"empty"];
    const FILLERS: &[u8] = "*.xX…•".as_bytes();
    let is_name = |rest: &[u8]| rest.iter().all(|byte| byte.is_ascii_uppercase() || *byte == b'_');
    WORDS.iter().any(|word| word.eq_ignore_ascii_case(value))
        || value.iter().all(|byte| FILLERS.contains(byte))
        || match value {
            [b'$', b'{', ..] | [b'%', b's' | b'(', ..] | [b'{', b'{', ..] => true,
            [b'$', rest @ ..] => is_name(rest),
            [b'<', .., b'>'] | [b'{', .., b'}'] => true,
            [b'[', rest @ .., b']'] | [b'[', rest @ ..] => is_name(rest),
            _ => false,
        }
}

/// Letters and digits, and more than two different ones.
fn is_mixed(head: &[u8]) -> bool {
    let token = head.iter().take_while(|byte| byte.is_ascii_graphic() && !b"\"'`<>".contains(byte));
    let (mut letters, mut digits) = (0_u64, 0_u64);
    for byte in token {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => letters |= 1 << (byte & 31),
            b'0'..=b'9' => digits |= 1 << (byte - b'0'),
            _ => {}
        }
    }
    letters != 0 && digits != 0 && (letters.count_ones() + digits.count_ones()) > 4
}

/// `abc8Q~…`: four characters in front, at least 31 behind.
fn azure_client_secret(scan: &Scan<'_>, at: Range<usize>) -> Option<Range<usize>> {
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || b"_~.-".contains(byte);
    let start = at.start.checked_sub(4)?;
    let front = scan.bytes.get(start..at.start)?;
    let fits = scan.bytes.get(at.start) == Some(&b'Q') && front.iter().all(is_letter) && front[3].is_ascii_digit();
    let end = at.end + scan.bytes[at.end..].iter().take(40).take_while(|byte| is_letter(byte)).count();
    (fits && end - at.end >= 31 && scan.text.is_char_boundary(start)).then_some(start..end)
}

/// `SG.` and two parts.
fn sendgrid(scan: &Scan<'_>, at: Range<usize>) -> Option<Range<usize>> {
    let first = scan.run_to(at.end, Word, 64);
    let begins = !scan.before(at.start).is_some_and(|byte| byte.is_ascii_alphanumeric());
    let fits = scan.text.get(at.clone()) == Some("SG.") && begins && first - at.end >= 16;
    if !fits || scan.bytes.get(first) != Some(&b'.') {
        return None;
    }
    let end = scan.run(first + 1, Word);
    (end - first > 16).then_some(at.start..end)
}

/// A bot's number, `:AA` and 33 letters.
fn telegram(scan: &Scan<'_>, at: Range<usize>) -> Option<Range<usize>> {
    let digits = scan.bytes[..at.start].iter().rev().take(12).take_while(|byte| byte.is_ascii_digit()).count();
    let fits = scan.text.get(at.clone()) == Some(":AA") && (8..=11).contains(&digits);
    (fits && scan.is_run(at.end, Word, 32)).then(|| at.start - digits..scan.run(at.end, Word))
}

/// Three parts of base64; of a cut one, two that are both JSON.
fn jwt(scan: &Scan<'_>, at: Range<usize>) -> Option<Range<usize>> {
    let begins = !scan.before(at.start).is_some_and(|byte| Word.has(byte));
    if scan.text.get(at.clone()) != Some("eyJ") || !begins {
        return None;
    }
    let mut end = scan.run_to(at.end, Word, usize::MAX);
    let second = end + 1;
    if end - at.start < 10 || scan.bytes.get(end) != Some(&b'.') {
        return None;
    }
    end = scan.run_to(second, Word, usize::MAX);
    let is_json = scan.bytes[second..].starts_with(b"eyJ");
    let mut parts = 2;
    while parts < 5 && scan.bytes.get(end) == Some(&b'.') {
        let next = scan.run_to(end + 1, Word, usize::MAX);
        if next == end + 1 {
            break;
        }
        (end, parts) = (next, parts + 1);
    }
    let long_enough = end - second >= 10;
    (long_enough && (is_json || (parts > 2 && end - at.start >= 60))).then_some(at.start..end)
}

const PEM_DASHES: &str = "-----";
const PEM_END: &str = "-----END ";

/// From its first line to its last; of a cut one, all that looks like it.
fn pem(scan: &Scan<'_>, at: Range<usize>) -> Option<Range<usize>> {
    let head = scan.bytes.get(at.end..scan.bytes.len().min(at.end + 60))?;
    let title = head.iter().take_while(|byte| Upper.has(**byte) || **byte == b' ').count();
    let name = scan.text.get(at.end..at.end + title)?;
    let body = at.end + title + PEM_DASHES.len();
    let is_key = name.ends_with("PRIVATE KEY") || name.ends_with("PRIVATE KEY BLOCK");
    if !is_key || scan.text.get(at.end + title..body) != Some(PEM_DASHES) {
        return None;
    }
    let end = if scan.no_pem_end.get() { None } else { scan.text.get(body..)?.find(PEM_END) };
    scan.no_pem_end.set(end.is_none());
    let Some(end) = end.map(|end| body + end + PEM_END.len()) else {
        let is_body = |byte: &u8| (Base64.has(*byte) && *byte != b'-') || b" \t\r\n\\:,".contains(byte);
        return Some(at.start..body + scan.bytes[body..].iter().take_while(|byte| is_body(byte)).count());
    };
    let last_line = scan.text.get(end..)?.find(PEM_DASHES).filter(|len| *len < 60);
    Some(at.start..end + last_line.map_or(0, |len| len + PEM_DASHES.len()))
}

/// The password in `scheme://user:password@host`.
fn url_password(scan: &Scan<'_>, at: Range<usize>) -> Option<Range<usize>> {
    let scheme = scan.before(at.start).is_some_and(|byte| byte.is_ascii_alphanumeric());
    let all = scan.bytes.get(at.end..scan.bytes.len().min(at.end + AUTHORITY_BYTES))?;
    let ends = |byte: &u8| byte.is_ascii_whitespace() || b"/?#\"'`\\<>|".contains(byte);
    let authority = &all[..all.iter().position(ends).unwrap_or(all.len())];
    let host = authority.iter().rposition(|byte| *byte == b'@')?;
    let password = authority[..host].iter().position(|byte| *byte == b':')? + 1;
    let value = &authority[password..host];
    let fits = scheme && !value.is_empty() && !value.starts_with(MARK_START.as_bytes());
    let hidden = value.iter().all(|byte| *byte == b'*');
    (fits && !hidden).then_some(at.end + password..at.end + host)
}

/// Schemes whose credentials have several parts, up to the end of the line.
const LONG_SCHEMES: &[&str] = &["digest", "aws4-hmac-sha256", "hawk", "oauth", "signature"];
const SCHEMES: &[&str] =
    &["bearer", "basic", "token", "apikey", "api-key", "key", "negotiate", "ntlm", "dpop", "splunk", "sso-key"];

fn authorization(scan: &Scan<'_>, at: Range<usize>) -> Option<Range<usize>> {
    let value = scan.assigned(at.end)?;
    let scheme = scan.run_to(value.start, Word, 20);
    let start = scheme + scan.count(scheme, b" ", 2);
    let is = |all: &[&str]| {
        let word = scan.text.get(value.start..scheme).filter(|_| start > scheme);
        word.is_some_and(|word| all.iter().any(|scheme| scheme.eq_ignore_ascii_case(word)))
    };
    if !is(LONG_SCHEMES) && !is(SCHEMES) {
        let value = AssignedValue { by_equals: true, ..value };
        let fits = scan.is_secret_value(value, Value::Mixed, 16);
        return fits.then(|| value.start..scan.value_end(value, usize::MAX));
    }
    if scan.bytes[start..].starts_with(MARK_START.as_bytes()) || scan.until(start, b",;)}]>", 6) - start < 6 {
        return None;
    }
    if is(SCHEMES) {
        return Some(start..scan.until(start, b",;)}]>", usize::MAX));
    }
    let stops = |byte: &u8| b"\r\n".contains(byte) || value.quote == Some(*byte);
    Some(start..start + scan.bytes[start..].iter().take_while(|byte| !stops(byte)).count())
}

fn bearer(scan: &Scan<'_>, at: Range<usize>) -> Option<Range<usize>> {
    let start = at.end + scan.count(at.end, b" ", 2);
    if start == at.end || scan.is_inside_word(at.start) {
        return None;
    }
    let is_token = |byte: &&u8| byte.is_ascii_alphanumeric() || b"._~+/=-".contains(byte);
    let head = scan.read(start).iter().take_while(is_token).count();
    let fits = head >= 16 && is_mixed(&scan.bytes[start..start + head]);
    fits.then(|| start..start + scan.bytes[start..].iter().take_while(is_token).count())
}

/// Base64 of `user:password`.
fn basic(scan: &Scan<'_>, at: Range<usize>) -> Option<Range<usize>> {
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
    let len = scan.bytes[at.end..].iter().take(1_024).take_while(|byte| is_letter(byte)).count();
    let value = scan.bytes.get(at.end..at.end + len)?;
    let decoded = from_base64(value)?;
    let fits = decoded.contains(&b':') && decoded.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ');
    (len >= 8 && fits).then_some(at.end..at.end + len)
}

fn from_base64(text: &[u8]) -> Option<Vec<u8>> {
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    if !text.len().is_multiple_of(4) || padding > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0_u32, 0);
    for byte in &text[..text.len() - padding] {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(six);
        count += 6;
        if count >= 8 {
            count -= 8;
            let [.., byte] = (bits >> count).to_be_bytes();
            bytes.push(byte);
        }
    }
    Some(bytes)
}

/// The pairs of a Cookie or Set-Cookie line.
fn cookie(scan: &Scan<'_>, at: Range<usize>) -> Option<Range<usize>> {
    let value = scan.assigned(at.end)?;
    let name = scan.run_to(value.start, Dotted, 80);
    if value.by_equals || name == value.start || scan.bytes.get(name) != Some(&b'=') {
        return None;
    }
    let stops = |byte: &u8| b"\r\n".contains(byte) || value.quote == Some(*byte);
    Some(value.start..name + scan.bytes[name..].iter().take_while(|byte| !stops(byte)).count())
}

/// A password, and not the working directory.
fn pwd(scan: &Scan<'_>, at: Range<usize>) -> Option<Range<usize>> {
    let value = scan.assigned(at.end)?;
    let is_folder = matches!(scan.bytes.get(value.start), Some(b'/' | b'~' | b'.'));
    let fits = !is_folder && scan.is_secret_value(value, Value::Any, 3);
    fits.then(|| value.start..scan.value_end(value, usize::MAX))
}
