package examine

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/secret"
)

// span is a piece of a text, and what takes its place.
type span struct {
	from, to int
	text     string
}

// replaceSpans puts spans that do not overlap into a text.
func replaceSpans(text string, spans []span) string {
	slices.SortStableFunc(spans, func(a, b span) int { return a.from - b.from })
	var out strings.Builder
	at := 0
	for _, s := range spans {
		if s.from < at { // in one that is out already
			continue
		}
		out.WriteString(text[at:s.from] + s.text)
		at = s.to
	}
	out.WriteString(text[at:])
	return out.String()
}

// objects takes the values out of Kubernetes' Secrets, wherever one stands in a text: YAML, JSON,
// lists, and strings that hold one of these, such as the annotation of what was applied last.
func objects(text string, deep int) string {
	if deep > 8 || !strings.Contains(text, "ata") { // data, stringData
		return text
	}
	f := &flow{text: text, deep: deep}
	text = replaceSpans(text, f.secrets())
	return strings.Join(blockSecrets(strings.SplitAfter(text, "\n")), "")
}

// isSecret reports whether an object with this kind and these values of data is a Secret. Entries of
// a SecretList and patches have no kind, and one that is cut off has a part of it.
func isSecret(kind string, values []string) bool {
	if kind != "" {
		return strings.HasPrefix("secret", strings.ToLower(kind))
	}
	said := false
	for _, v := range values {
		said = said || v != ""
		if len(v)%4 != 0 || strings.Trim(v, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=") != "" {
			return false
		}
	}
	return said
}

// flow finds Secrets in JSON and in YAML between braces. It takes any text, since a log has both
// between other words, and cut off.
type flow struct {
	text   string
	deep   int // how many strings are around it
	open   []*frame
	quoted int // where a value in double quotes has just ended, else 0
	out    []span
}

// frame is an object or a list that is open.
type frame struct {
	list   bool
	below  bool   // in the data of an object
	key    string // that was read last
	valued bool   // behind its colon
	kind   string
	data   []span // the values of data
	always []span // those of stringData, which a Secret alone has
	within []span // all values, if below
}

func (f *flow) secrets() []span {
	for at := 0; at < len(f.text); {
		switch c := f.text[at]; {
		case c == '{' || c == '[':
			f.push(c == '[')
			at++
		case c == '}' || c == ']':
			f.pop(false)
			at++
		case len(f.open) > 0 && (c == ',' || c == ':'):
			f.mark(c)
			at++
		case strings.IndexByte(" \t\r\n,:", c) >= 0:
			at++
			continue
		default:
			if f.quoted > 0 && strings.Contains(f.text[f.quoted:at], "\n") { // JSON goes on otherwise: it was cut off
				f.close()
			}
			end := f.scalar(at)
			f.readScalar(at, end)
			at = end
			continue
		}
		f.quoted = 0
	}
	f.close()
	return f.out
}

// close ends all that is open, since it was cut off.
func (f *flow) close() {
	for len(f.open) > 0 {
		f.pop(true)
	}
	f.quoted = 0
}

func (f *flow) top() *frame {
	if len(f.open) == 0 {
		return &frame{list: true}
	}
	return f.open[len(f.open)-1]
}

func (f *flow) push(list bool) {
	t := f.top()
	data := !list && !t.list && (t.key == "data" || t.key == "stringData")
	f.open = append(f.open, &frame{list: list, below: t.below || data})
}

func (f *flow) mark(c byte) {
	t := f.top()
	t.valued = c == ':' && !t.list
}

// pop ends what is open. In one that was cut off, the kind may be missing.
func (f *flow) pop(cut bool) {
	if len(f.open) == 0 {
		return
	}
	t := f.top()
	f.open = f.open[:len(f.open)-1]
	var values []string
	for _, s := range t.data {
		values = append(values, strings.Trim(f.text[s.from:s.to], `"'`))
	}
	if cut && t.kind == "" || isSecret(t.kind, values) {
		f.out = append(f.out, t.data...)
	}
	f.out = append(f.out, t.always...)
	f.give(t.within)
	f.top().valued = false
}

// give adds values to what is open.
func (f *flow) give(values []span) {
	if len(f.open) == 0 {
		return
	}
	t := f.top()
	switch {
	case len(values) == 0:
	case t.below:
		t.within = append(t.within, values...)
	case t.key == "data":
		t.data = append(t.data, values...)
	case t.key == "stringData":
		t.always = append(t.always, values...)
	}
}

// scalar returns where a scalar ends that begins at a place.
func (f *flow) scalar(at int) int {
	if quote := f.text[at]; quote == '"' || quote == '\'' {
		for end := at + 1; end < len(f.text) && f.text[end] != '\n'; end++ {
			switch {
			case quote == '"' && f.text[end] == '\\':
				end++
			case f.text[end] == quote && quote == '\'' && strings.HasPrefix(f.text[end+1:], "'"):
				end++
			case f.text[end] == quote:
				return end + 1
			}
		}
		if len(f.open) > 0 && f.top().valued || strings.HasPrefix(strings.TrimLeft(f.text[at+1:], "["), `{\"`) { // cut off
			if n := strings.IndexByte(f.text[at:], '\n'); n >= 0 {
				return at + n
			}
			return len(f.text)
		}
		return at + 1
	}
	end := at
	for end < len(f.text) && strings.IndexByte("{}[],\n", f.text[end]) < 0 && !strings.HasPrefix(f.text[end:], ": ") && !strings.HasPrefix(f.text[end:], ":{") {
		if end > at && (f.text[end] == '"' || f.text[end] == '\'') && strings.IndexByte(" =:(", f.text[end-1]) >= 0 {
			break
		}
		end++
	}
	return max(end, at+1)
}

// readScalar reads a scalar: a key, a value, or words between.
func (f *flow) readScalar(at, end int) {
	raw := strings.TrimRight(f.text[at:end], " \t\r")
	end = at + len(raw)
	if inner, again := unquote(raw); again != nil {
		if clean := objects(inner, f.deep+1); clean != inner {
			f.out = append(f.out, span{at, end, again(clean)})
		}
	}
	if len(f.open) == 0 {
		return
	}
	t := f.top()
	value, _ := unquote(raw)
	f.quoted = 0
	switch {
	case !t.list && !t.valued:
		t.key = value
		return
	case raw[0] == '"':
		f.quoted = end
	}
	if t.key == "kind" && !t.list && t.kind == "" {
		t.kind = strings.Trim(value, `"'`) // one that is cut off has but the first
	}
	mask := secret.Mask
	if raw[0] == '"' || raw[0] == '\'' {
		mask = raw[:1] + mask + raw[:1]
	}
	if t.below || t.key == "data" || t.key == "stringData" {
		f.give([]span{{at, end, mask}})
	}
}

// unquote returns what is in quotes, and how to put quotes around it again.
func unquote(raw string) (string, func(string) string) {
	switch {
	case len(raw) >= 2 && raw[0] == '\'' && raw[len(raw)-1] == '\'':
		return strings.ReplaceAll(raw[1:len(raw)-1], "''", "'"), func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	case raw != "" && raw[0] == '"':
		return unquoteDouble(raw)
	}
	return raw, nil
}

// unquoteDouble is unquote for double quotes. The second may be cut off, and an escape with it.
func unquoteDouble(raw string) (s string, again func(string) string) {
	closed := len(raw) >= 2 && raw[len(raw)-1] == '"'
	switch {
	case closed && json.Unmarshal([]byte(raw), &s) == nil:
		return s, strconv.Quote
	case json.Unmarshal([]byte(raw+`"`), &s) == nil, !closed && json.Unmarshal([]byte(raw[:max(1, strings.LastIndexByte(raw, '\\'))]+`"`), &s) == nil:
		return s, func(s string) string { return strings.TrimSuffix(strconv.Quote(s), `"`) }
	case !closed:
		return raw[1:], nil
	}
	if s, err := strconv.Unquote(raw); err == nil {
		return s, strconv.Quote
	}
	return raw[1 : len(raw)-1], strconv.Quote
}

// entry is a line of YAML in block style: where its key begins, behind blanks, dashes and what a
// journal writes first; the key; and what follows it.
var entry = regexp.MustCompile(`^((?:[A-Z][a-z]{2} [ \d]\d [\d:]{8}|\d{4}-\d\d-\d\dT\S+) \S+ [^\s:]+: )?([ +]*)((?:- +)*)("[^"]*"|'[^']*'|[^\s"'#:{\[]+) *:(?: +(.*?))?,?\s*$`)

// line is one of a text, seen as YAML.
type line struct {
	indent int    // of what is first, a dash too
	column int    // of its key, -1 without one
	head   string // all before the key's value
	key    string
	value  string
	empty  bool // or a comment
}

var journal = regexp.MustCompile(`^(?:(?:[A-Z][a-z]{2} [ \d]\d [\d:]{8}|\d{4}-\d\d-\d\dT\S+) \S+ [^\s:]+: )?`)

func lineOf(text string) line {
	rest := strings.TrimRight(text[len(journal.FindString(text)):], "\r\n")
	words := strings.TrimLeft(rest, " +")
	l := line{indent: len(rest) - len(words), column: -1, empty: words == "" || words[0] == '#'}
	if m := entry.FindStringSubmatchIndex(text); m != nil {
		l.column = m[7] - m[4]
		l.key = strings.Trim(text[m[8]:m[9]], `"'`)
		l.head = text[:m[9]] + ": "
		if m[10] >= 0 {
			value, _, _ := strings.Cut(text[m[10]:m[11]], " #")
			l.value = strings.Trim(strings.TrimSpace(value), `"'`)
		}
	}
	return l
}

// blockSecrets takes out the values of Secrets in YAML's block style, and in JSON of many lines.
func blockSecrets(texts []string) []string {
	lines := make([]line, len(texts))
	for i, text := range texts {
		lines[i] = lineOf(text)
	}
	out := slices.Clone(texts)
	for i, l := range lines {
		switch {
		case l.column >= 0 && (l.key == "data" || l.key == "stringData"):
			end, values := entriesBelow(lines, i)
			if end == len(lines) && len(values) > 0 && !strings.HasSuffix(texts[end-1], "\n") { // cut off within the last value
				last := &values[len(values)-1]
				*last = (*last)[:len(*last)/4*4] // so much of base64 is whole
			}
			kind := kindBeside(lines, i)
			if l.key == "stringData" || strings.EqualFold(kind, "Secret") || (l.value == "" || l.value == "{") && isSecret(kind, values) {
				mask(out, lines, i, end)
			}
		case l.key == "kind" && l.value == "Secret": // what is above may have lost its head
			top := i - 1
			for top >= 0 && (lines[top].empty || lines[top].indent > l.column) {
				top--
			}
			if top < 0 || lines[top].column != l.column {
				mask(out, lines, top, i)
			}
		}
	}
	return out
}

// entriesBelow returns where the lines below an entry end, and the values of the entries there.
func entriesBelow(lines []line, i int) (end int, values []string) {
	child := -1
	for end = i + 1; end < len(lines) && (lines[end].empty || lines[end].indent > lines[i].column); end++ {
		if l := lines[end]; l.column >= 0 && (child < 0 || l.column == child) {
			child = l.column
			values = append(values, l.value)
		}
	}
	return end, values
}

// kindBeside returns the kind of the object that an entry belongs to.
func kindBeside(lines []line, i int) string {
	column := lines[i].column
	beside := func(l line) bool { return l.column == column && l.key == "kind" }
	for down := i + 1; down < len(lines); down++ {
		l := lines[down]
		if !l.empty && (l.indent < column || l.indent == column && (l.column != column || l.key == lines[i].key)) {
			break
		}
		if beside(l) {
			return l.value
		}
	}
	for up := i; up >= 0; up-- {
		l := lines[up]
		if beside(l) {
			return l.value
		}
		if !l.empty && (l.indent < column || up < i && l.indent == column && (l.column != column || l.key == lines[i].key)) {
			break
		}
	}
	return ""
}

// mask takes out the values between an entry and a line, and leaves their names.
func mask(out []string, lines []line, head, end int) {
	if head >= 0 && lines[head].value != "" && lines[head].value != "{" {
		out[head] = lines[head].head + secret.Mask + "\n"
	}
	child := -1
	for i := head + 1; i < end; i++ {
		l := lines[i]
		if child < 0 && !l.empty {
			child = l.indent
		}
		out[i] = ""
		if l.column == child && l.key != "" {
			out[i] = l.head + secret.Mask + "\n"
		}
	}
}
