package fleet

import (
	"path"
	"regexp"
	"strings"
)

// lintTokens are texts that are secrets wherever they stand.
var lintTokens = map[string]*regexp.Regexp{
	"a private key":          regexp.MustCompile(`-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----[^<$]`),
	"an age key":             regexp.MustCompile(`\bAGE-SECRET-KEY-1[0-9A-Z]{50,}`),
	"a GitHub token":         regexp.MustCompile(`\b(ghp|gho|ghs|ghr)_[0-9A-Za-z]{36}\b|\bgithub_pat_[0-9A-Za-z_]{60,}`),
	"a GitLab token":         regexp.MustCompile(`\bglpat-[0-9A-Za-z_-]{20,}`),
	"an AWS access key":      regexp.MustCompile(`\b(AKIA|ASIA)[0-9A-Z]{16}\b`),
	"a Slack token":          regexp.MustCompile(`\bxox[abprs]-[0-9A-Za-z-]{20,}`),
	"a K3s token":            regexp.MustCompile(`\bK10[0-9a-f]{64}::`),
	"a password in a URL":    regexp.MustCompile(`\b[a-z][a-z0-9+.-]*://[^/\s:@"'<>${}]+:[^/\s:@"'<>${}]{4,}@[a-zA-Z0-9]`),
	"a Docker registry auth": regexp.MustCompile(`"auth"\s*:\s*"[A-Za-z0-9+/=]{12,}"`),
}

// checkSecrets looks for what must not be in Git. It says where, and never what.
func (l *linter) checkSecrets() {
	for _, name := range keysOf(l.tree.files) {
		f := l.tree.files[name]
		if f.data == nil || len(f.data) > lintMaxPlace || !textual(name) {
			continue
		}
		for _, what := range keysOf(lintTokens) {
			if at := lintTokens[what].FindIndex(f.data); at != nil && !placeholder(string(f.data[at[0]:at[1]])) {
				l.add("secret-token", name, placeOf(f.data, at[0]), "this is %s", what)
			}
		}
	}
	for _, b := range l.bundles {
		for _, o := range b.objects {
			l.secretObject(o)
		}
		for _, h := range l.helmsOf(b) {
			l.secretValues(b.File, h.node.get("values"), "")
			for _, n := range h.node.get("valuesFiles").list() {
				if f := l.tree.files[path.Join(b.Dir, n.str())]; f != nil && f.read && len(f.docs) > 0 {
					l.secretValues(f.name, f.docs[0].root, "")
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

// placeholder says that a text stands for a secret and is none.
func placeholder(text string) bool {
	lower := strings.ToLower(strings.TrimSpace(text))
	for _, part := range []string{"${", "{{", "<", "changeme", "change-me", "change_me", "example", "placeholder", "redacted", "xxxx", "your-", "your_", "****", "todo", global} {
		if strings.Contains(lower, part) {
			return true
		}
	}
	return lower == "" || lower == "null"
}

const global = "global.fleet.clusterlabels."

// secretObject: a Secret whose data is in Git. One that is encrypted says so by its
// kind (SealedSecret) or by sops' own section.
func (l *linter) secretObject(o *lintObject) {
	if o.kind != "Secret" || o.apiVersion != "v1" || o.node.get("sops") != nil {
		return
	}
	for _, key := range []string{"data", "stringData"} {
		for _, f := range o.node.get(key).fieldsOf() {
			if text := f.value.str(); text != "" && !placeholder(text) {
				l.add("secret-in-git", o.file.name, f.at, "%s has %s.%s in plain text (base64 hides nothing)", o, key, f.name)
				return
			}
		}
	}
}

var (
	lintSecretName = regexp.MustCompile(`(?i)(^|[a-z_-])(password|passwd|passphrase|secret[_-]?key|private[_-]?key|client[_-]?secret|api[_-]?key|api[_-]?token|access[_-]?token|auth[_-]?token|secret[_-]?token|cookie[_-]?secret|crypt[_-]?key)s?$`)
	lintSecretElse = regexp.MustCompile(`(?i)(ref|name|file|path|key|length|policy|enabled|url|min|max)$`)
)

// secretValues: values whose names say what they are. Names of Secrets, files and
// keys in them are no secrets: existingSecret, passwordKey, secretName.
func (l *linter) secretValues(file string, n *lintNode, at string) {
	for _, f := range n.fieldsOf() {
		secret := lintSecretName.MatchString(f.name)
		if f.value.kind == lintText && secret && !placeholder(f.value.text) && !strings.HasPrefix(strings.ToLower(f.name), "existing") {
			if !lintSecretElse.MatchString(f.name) || regexp.MustCompile(`(?i)(secret|private|api|crypt)[_-]?key$`).MatchString(f.name) {
				l.add("secret-in-values", file, f.at, "%s is in plain text", join(at, f.name))
			}
		}
		l.secretValues(file, f.value, join(at, f.name))
	}
	if n != nil {
		for _, item := range n.items {
			l.secretValues(file, item, at)
		}
	}
}
