package examine

import (
	"regexp"
	"strings"

	"github.com/cps-gpu/homelab/secret"
)

// redactor takes secrets out of text that others have written: those that are known, and what
// looks like one.
type redactor struct {
	known *secret.Redactor
	whole []*regexp.Regexp
	named *regexp.Regexp // a name, and what follows it
	block *regexp.Regexp // a name in YAML whose value is the lines below
	login *regexp.Regexp
}

func newRedactor(known *secret.Redactor) *redactor {
	r := &redactor{known: known}
	for _, like := range []string{
		`-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----[\s\S]*?(-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)`,
		`K10[0-9a-f]{16,}::\S+`, // K3s' tokens
		`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`,
		`eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(\.[A-Za-z0-9_-]*)?`,
		`AGE-SECRET-KEY-[0-9A-Za-z-]+`,
		`\$[0-9a-z]{1,3}\$[./A-Za-z0-9$=,]{16,}`, // hashes of passwords
		`PVEAPIToken=\S+`,
		`\b(?:H4sI|SDRzSU)[A-Za-z0-9+/=]{40,}`, // what gzip has packed: Helm's releases
		`Data:map\[string\]\[\]uint8\{[^\n]*`,  // a Secret as Go prints it
		`(?i)\b(bearer|basic) +[A-Za-z0-9._~+/=-]{8,}`,
	} {
		r.whole = append(r.whole, regexp.MustCompile(like))
	}
	// What stands behind a name: in quotes, with blanks, or one word. A flag may have a blank between.
	r.named = regexp.MustCompile(`(?i)(["']?([a-z0-9_.-]*` + secretNames + `[a-z0-9_.-]*)["']?\s*[:=]\s*|--?([a-z0-9_.-]*` + secretNames + `[a-z0-9_.-]*) +)("(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[^\s"',}\[\]{|>-][^\s"',}\]]*|-[^\s"',}\]]*)`)
	r.block = regexp.MustCompile(`(?i)^(\s*(?:- +)?)["']?([a-z0-9_.-]*` + secretNames + `[a-z0-9_.-]*)["']?\s*:\s*[|>][0-9+-]*\s*$`)
	r.login = regexp.MustCompile(`(://[^/\s:@"']*:)[^/\s"'<>]*@`)
	return r
}

// redact returns the text without secrets. References to secrets, such as env:NAME, stay.
func (r *redactor) redact(text string) string {
	if r.known != nil {
		text = r.known.Redact(text)
	}
	text = objects(text, 0)
	for _, like := range r.whole {
		text = like.ReplaceAllString(text, secret.Mask)
	}
	text = r.login.ReplaceAllString(text, "${1}"+secret.Mask+"@")
	return r.redactAfterNames(r.blocks(text), 0)
}

// redactAfterNames takes out what stands behind the names of secrets.
func (r *redactor) redactAfterNames(text string, deep int) string {
	return r.named.ReplaceAllStringFunc(text, func(match string) string {
		m := r.named.FindStringSubmatch(match)
		value := strings.Trim(m[4], `"'`)
		kept := pointer(m[2]+m[3]) || len(value) < 4 || m[3] != "" && strings.HasPrefix(value, "-")
		for _, reference := range []string{"env:", "file:", "sops:", "/", secret.Mask} {
			kept = kept || strings.HasPrefix(value, reference)
		}
		switch quote := m[4][:1]; {
		case kept && deep < 4: // the next name may stand in it
			return m[1] + r.redactAfterNames(m[4], deep+1)
		case kept:
			return match
		case quote == `"` || quote == "'":
			return m[1] + quote + secret.Mask + quote
		}
		return m[1] + secret.Mask
	})
}

// secretNames are parts of the names of secrets.
const secretNames = `(?:pass(?:word|wd|phrase)|pwd|secret|token|api[-_]?key|access[-_]?key|private[-_]?key|encryption[-_]?key|signing[-_]?key|client[-_]?(?:key[-_]?)?data|key[-_]data|credentials?|authorization|cookie|psk)`

// pointer reports whether a name is that of something which says where a secret is.
func pointer(name string) bool {
	name = strings.ToLower(name)
	for _, end := range []string{"name", "names", "ref", "refs", "id", "ids", "file", "files", "path", "hash", "type", "count", "expires", "namespace", "providerclass"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}

// blocks leaves out the lines below a name of a secret.
func (r *redactor) blocks(text string) string {
	var out strings.Builder
	deeper := -1 // indent of a name whose lines are left out
	for line := range strings.Lines(text) {
		indent := len(line) - len(strings.TrimLeft(line, " "))
		if deeper >= 0 && (indent > deeper || strings.TrimSpace(line) == "") {
			continue
		}
		deeper = -1
		out.WriteString(line)
		if m := r.block.FindStringSubmatch(strings.TrimRight(line, "\n")); m != nil && !pointer(m[2]) {
			deeper = len(m[1])
			if strings.HasSuffix(m[1], "- ") {
				deeper = indent
			}
			out.WriteString(strings.Repeat(" ", deeper+2) + secret.Mask + "\n")
		}
	}
	return out.String()
}
