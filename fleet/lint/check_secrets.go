package lint

import (
	"bytes"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/fleet/lint/internal/manifest"
	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// lintToken is a text that is always a secret.
type lintToken struct {
	what  string
	begin []string // it contains one of these; searched first, because that is fast
	text  *regexp.Regexp
}

var lintTokens = [...]lintToken{
	{"a private key", []string{"PRIVATE KEY-----"}, regexp.MustCompile(`-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----(?:\s|\\n)*(?:[A-Za-z0-9+/=]{16}|[A-Z][A-Za-z-]+: )`)},
	{"an age key", []string{"AGE-SECRET-KEY-1"}, regexp.MustCompile(`\bAGE-SECRET-KEY-1[0-9A-Z]{50,}`)},
	{"a GitHub token", []string{"ghp_", "gho_", "ghs_", "ghr_", "github_pat_"}, regexp.MustCompile(`\b(ghp|gho|ghs|ghr)_[0-9A-Za-z]{36}\b|\bgithub_pat_[0-9A-Za-z_]{60,}`)},
	{"a GitLab token", []string{"glpat-"}, regexp.MustCompile(`\bglpat-[0-9A-Za-z_-]{20,}`)},
	{"an AWS access key", []string{"AKIA", "ASIA"}, regexp.MustCompile(`\b(AKIA|ASIA)[0-9A-Z]{16}\b`)},
	{"a Slack token", []string{"xox"}, regexp.MustCompile(`\bxox[abprs]-[0-9A-Za-z-]{20,}`)},
	{"a K3s token", []string{"K10"}, regexp.MustCompile(`\bK10[0-9a-f]{64}::`)},
	{"a password in a URL", []string{"@"}, regexp.MustCompile(`\b[a-z][a-z0-9+.-]{1,20}://[^/\s:@"'<>${}]+:[^/\s:@"'<>${}]{4,}@[a-zA-Z0-9]`)},
	{"a registry's password", []string{`"auth"`}, regexp.MustCompile(`"auth"\s*:\s*"[A-Za-z0-9+/=]{12,}"`)},
}

// find returns where the token is, or nil.
func (t lintToken) find(data []byte) []int {
	for _, begin := range t.begin {
		if bytes.Contains(data, []byte(begin)) {
			return t.text.FindIndex(data)
		}
	}
	return nil
}

// checkSecrets looks for secrets in Git. It reports their place, never the secret.
func (l objectCheck) checkSecrets() {
	for _, name := range slices.Sorted(maps.Keys(l.tree.files)) {
		f := l.tree.files[name]
		if f.data == nil || len(f.data) > manifest.MaxPlace || !textual(name) {
			continue
		}
		for _, token := range lintTokens {
			if at := token.find(f.data); at != nil && !placeholder(string(f.data[at[0]:at[1]])) {
				l.add("secret-token", name, placeOf(f.data, at[0]), "this is %s", token.what)
			}
		}
	}
	for _, b := range l.bundles {
		for _, o := range b.objects {
			l.secretObject(o)
		}
		for _, h := range l.helmsOf(b) {
			l.secretValues(b.File, h.node.Get("values"), "")
			for _, n := range h.node.Get("valuesFiles").List() {
				if f := l.tree.files[path.Join(b.Dir, n.Str())]; f != nil && f.read && len(f.docs) > 0 {
					l.secretValues(f.name, f.docs[0].Root, "")
				}
			}
		}
	}
	for _, o := range l.loose {
		l.secretObject(o)
	}
}

func textual(name string) bool {
	switch path.Ext(name) {
	case ".yaml", ".yml", ".json", ".env", ".txt", ".key", ".pem", ".sh", ".conf", ".toml", ".tpl", "":
		return true
	}
	return false
}

// placeholder says that a text only stands for a secret.
func placeholder(text string) bool {
	lower := strings.ToLower(strings.TrimSpace(text))
	for _, part := range []string{"${", "{{", "<", "changeme", "change-me", "change_me", "example", "placeholder", "redacted", "xxxx", "your-", "your_", "****", "todo", "global.fleet.clusterlabels."} {
		if strings.Contains(lower, part) {
			return true
		}
	}
	return lower == "" || lower == "null"
}

// secretObject finds a Secret whose data is in Git. An encrypted one has another kind
// (SealedSecret) or a section of sops.
func (l objectCheck) secretObject(o *lintObject) {
	if o.kind != "Secret" || o.apiVersion != "v1" || o.node.Get("sops") != nil {
		return
	}
	for _, key := range []string{"data", "stringData"} {
		for _, f := range o.node.Get(key).Entries() {
			if text := f.Value.Str(); text != "" && !placeholder(text) {
				l.add("secret-in-git", o.file.name, f.At, "%s has %s.%s in plain text (base64 hides nothing)", o, key, f.Name)
				return
			}
		}
	}
}

var (
	lintSecretName = regexp.MustCompile(`(?i)(^|[a-z_-])(password|passwd|passphrase|secret[_-]?key|private[_-]?key|client[_-]?secret|api[_-]?key|api[_-]?token|access[_-]?token|auth[_-]?token|secret[_-]?token|cookie[_-]?secret|crypt[_-]?key)s?$`)
	lintSecretKey  = regexp.MustCompile(`(?i)(secret|private|api|crypt)[_-]?key$`)
	lintSecretElse = regexp.MustCompile(`(?i)(ref|name|file|path|key|length|policy|enabled|url|min|max)$`)
)

// secretValues finds values whose names suggest a secret. Names of Secrets, files and keys are
// not secrets: existingSecret, passwordKey, secretName. A value that does not look like a
// secret is only a note.
func (l objectCheck) secretValues(file string, n *yamlnode.Node, at string) {
	if n.Get("sops") != nil && at == "" {
		return // encrypted
	}
	for _, f := range n.Entries() {
		secret := lintSecretName.MatchString(f.Name) && n.Get("remoteRef") == nil // an ExternalSecret's names
		if f.Value.Kind == yamlnode.Text && secret && !placeholder(f.Value.Text) && !expanded(f.Value.Text) && !strings.HasPrefix(strings.ToLower(f.Name), "existing") {
			if !lintSecretElse.MatchString(f.Name) || lintSecretKey.MatchString(f.Name) {
				l.add("secret-in-values", file, f.At, "%s is in plain text", manifest.Join(at, f.Name))
				if !looksSecret(f.Value.Text) {
					l.found[len(l.found)-1].Severity = Info
				}
			}
		}
		l.secretValues(file, f.Value, manifest.Join(at, f.Name))
	}
	if n != nil {
		for _, item := range n.Items {
			l.secretValues(file, item, at)
		}
	}
}

var lintExpanded = regexp.MustCompile(`^\$|\$[{(]|\$__|%\{|^ENC\[|^(vault|ref\+[a-z0-9]+|secretref\+?[a-z0-9]*|op|env|file|valueFrom):|^Ag[A-Za-z0-9+/=]{200,}$`)

// expanded says that a text is replaced later, or is encrypted: Grafana's $__file{}, a shell's
// and Helm's variables, SOPS, vault references, SealedSecrets.
func expanded(text string) bool { return lintExpanded.MatchString(strings.TrimSpace(text)) }

// lintNameLike matches names of things: admin, my-app-secret, db.credentials, a path.
var lintNameLike = regexp.MustCompile(`^\.?[A-Za-z]+([-_.][A-Za-z0-9]+)*$|^\.{0,2}/`)

// looksSecret says that a text has eight or more characters of more than one kind, and is not
// a name.
func looksSecret(text string) bool {
	if len(text) < 8 || lintNameLike.MatchString(text) {
		return false
	}
	kinds := 0
	for _, kind := range []string{`[a-z]`, `[A-Z]`, `[0-9]`, `[^A-Za-z0-9]`} {
		if regexp.MustCompile(kind).MatchString(text) {
			kinds++
		}
	}
	return kinds > 1
}
