package console

import (
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/mattn/go-runewidth"
	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/converge"
)

func TestOneLine(t *testing.T) {
	for in, want := range map[string]string{
		"":              "",
		" a\tb\r\n  c ": "a b; c",
		"it shows a, b (PX3)\n  write one of them:\n  pvesm add": "it shows a, b (PX3); write one of them: pvesm add",
		"\x1b[1;31mred\x1b[0m":           "red",
		"\x1b]0;title\x07x":              "x",
		"\x1b]8;;http://x\x1b\\link":     "link",
		"\x1b]0;never ends":              "",
		"a\x1bcb\x1b":                    "ab",
		"bell\a back\b null\x00":         "bell back null",
		"one.\ntwo\nthree,\nfour":        "one. two; three, four",
		"c1 \u009b2J":                    "c1 2J",
		"日本語\u3000と":                     "日本語 と",
		"bad \xff\xfe":                   "bad \ufffd\ufffd",
		"student3\u202e txt\u2066\u200b": `student3\u202e txt\u2066\u200b`,
	} {
		assert.Equal(t, want, oneLine(in), "%q", in)
	}
}

func TestDurations(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "<0.1s", 340 * time.Millisecond: "0.3s", 9949 * time.Millisecond: "9.9s", 9950 * time.Millisecond: "10s",
		59*time.Second + 600*time.Millisecond: "1m00s", 3*time.Minute + 5*time.Second: "3m05s", time.Hour + 2*time.Minute + 50*time.Second: "1h02m",
		time.Hour - time.Second: "59m59s", time.Hour: "1h00m", 25*time.Hour - time.Second: "24h59m", 25 * time.Hour: "25h00m", 59 * time.Second: "59s", time.Minute: "1m00s",
	} {
		assert.Equal(t, want, duration(d), d)
	}
	assert.Equal(t, "0s", clock(999*time.Millisecond))
	assert.Equal(t, "59s", clock(59*time.Second+999*time.Millisecond))
	assert.Equal(t, "10m00s", clock(10*time.Minute))
}

func TestCutAndPad(t *testing.T) {
	assert.Equal(t, "", truncate("abc", 0))
	assert.Equal(t, "", truncate("abc", -3))
	assert.Equal(t, "…", truncate("abc", 1))
	assert.Equal(t, "abc", truncate("abc", 3))
	assert.Equal(t, "日…", truncate("日本語", 4))
	assert.Equal(t, "日… ", pad("日本語", 4))
	assert.Equal(t, "日本語  ", pad("日本語", 8))
}

func TestWrap(t *testing.T) {
	assert.Equal(t, []string{""}, wrap("", 4, 20))
	assert.Equal(t, []string{"one two", "three"}, wrap("one two three", 4, 12))
	assert.Equal(t, []string{"one two three"}, wrap("one two three", 4, 0))
	assert.Equal(t, []string{"see", "https://example.com/a/long/path", "there"}, wrap("see https://example.com/a/long/path there", 4, 20))
	assert.Equal(t, []string{"memory,", "needs a restart"}, wrap("memory, "+noBreak("needs a restart"), 0, 16))
	assert.Equal(t, []string{"one two", "three"}, wrap("one two three", 4, 11), "it fills the line")
	assert.Equal(t, []string{"one", "two", "three"}, wrap("one two three", 4, 10))
	assert.Equal(t, []string{" one"}, wrap(" one", 4, 4), "no line is empty")
	assert.Equal(t, []string{"日本", "語 x"}, wrap("日本 語 x", 0, 6))
}

func FuzzWrap(f *testing.F) {
	f.Add("one two three", 4, 12)
	f.Add("日本 語", 0, 3)
	f.Fuzz(func(t *testing.T, s string, at, width int) {
		s = oneLine(s)
		at, width = max(0, at%50), max(0, width%200)
		lines := wrap(s, at, width)
		assert.Equal(t, strings.ReplaceAll(s, "\u00a0", " "), strings.Join(lines, " "))
		for _, l := range lines {
			if width > 0 && strings.Contains(strings.TrimSpace(l), " ") && !strings.Contains(s, "  ") && !strings.Contains(s, "\u00a0") {
				assert.LessOrEqual(t, at+runewidth.StringWidth(l), max(width, at+runewidth.StringWidth(l[:strings.LastIndex(l, " ")])))
			}
		}
	})
}

// TestOthersWords: nothing that others have written acts on the terminal, wherever it is
// put into a sentence of ours; margins stay.
func TestOthersWords(t *testing.T) {
	const foreign = "a\x1b]0;x\x07b\u202ec\r\n\td\u009be"
	const want = `ab\u202ec` + "\n    de"
	for name, say := range map[string]func(*Console){
		"Say":    func(c *Console) { c.Printf("%s", foreign) },
		"Fail":   func(c *Console) { c.Fail(foreign) },
		"Prompt": func(c *Console) { c.Prompt(foreign + " ") },
		"Text":   func(c *Console) { assert.NoError(t, c.Text(foreign)) },
	} {
		var out strings.Builder
		say(&Console{Talk: &out, Data: &out})
		assert.Equal(t, want, strings.TrimRight(out.String(), " \n"), name)
	}
	var out strings.Builder
	c := &Console{Talk: &out, Data: &out}
	name := "vm/b\u202ex\x1b[2J"
	assert.NoError(t, c.Plan(&converge.Plan{Items: []converge.Item{{Step: name, Verdict: converge.Change, Diff: converge.Diff{{Want: "x"}}}}}))
	c.Status(&converge.Plan{Items: []converge.Item{{Step: name, Verdict: converge.Change, Diff: converge.Diff{{Want: "x"}}}}}, nil)
	d := c.Display([]string{name})
	d.Listen(converge.Event{Kind: converge.Acting, Step: name, Diff: converge.Diff{{Want: "x"}}})
	d.Close()
	assert.NotContains(t, out.String(), "\u202e")
	assert.NotContains(t, out.String(), "\x1b")
}

func FuzzOneLine(f *testing.F) {
	f.Add("\x1b[1mx\x1b]0;t\x07")
	f.Add("a\nb\u009b")
	f.Fuzz(func(t *testing.T, s string) {
		line := oneLine(s)
		assert.False(t, strings.ContainsFunc(line, unicode.IsControl), "%q", line)
		assert.False(t, strings.ContainsFunc(line, func(r rune) bool { return unicode.Is(unicode.Cf, r) }), "%q", line)
		assert.LessOrEqual(t, runewidth.StringWidth(truncate(line, 20)), 20)
	})
}

func TestDifferences(t *testing.T) {
	d := converge.Diff{
		{Path: "memory", Have: "128GiB", Want: "96GiB", Effect: converge.Restart},
		{Path: "label/a", Have: `"x"`},
		{Path: "wk4", Have: "VM 107", Effect: converge.Remove, Note: "no longer in the file"},
		{Want: "a login over SSH", Have: "connection refused", Effect: converge.Create},
		{Path: "size", Have: "2", Want: "1", Effect: converge.Replace, Note: "disks do not shrink"},
	}
	assert.Equal(t, `memory: 128GiB → 96GiB, needs a restart; label/a: "x" → (none); wk4: VM 107 (no longer in the file); `+
		"connection refused → a login over SSH; size: 2 → 1, needs a replacement (disks do not shrink)", oneLine(differences(d)))
	assert.Equal(t, `memory: 128GiB → 96GiB; label/a: "x" → (none)`, describeAwaited(d[:2]))
	assert.Equal(t, "a login over SSH (connection refused)", describeAwaited(d[3:4]))
	assert.Equal(t, "state: activating → active (its last run ended: no)", describeAwaited(converge.Diff{{Path: "state", Have: "activating", Want: "active", Effect: converge.Create, Note: "its last run ended: no"}}))
}

func TestParts(t *testing.T) {
	assert.Equal(t, []string{"pve1", "cp1", "wk1", everywhere},
		partsOf([]string{"proxmox", "template/pve1", "vm/cp1", "vm/wk1", "api/10.0.0.100", "guest/cp1", "api/fd00::1"}))
	for step, want := range map[string][2]string{
		"guest/cp1": {"cp1", "first boot"}, "k3s/a": {"a", "K3s"}, "removed": {everywhere, "removed"},
		"api/10.0.0.100": {everywhere, "api 10.0.0.100"}, "vm/a/b": {"a/b", "vm"}, "": {everywhere, ""},
	} {
		name, what := Owner(step)
		assert.Equal(t, want, [2]string{name, what})
	}
	assert.Equal(t, "a, b", shortList([]string{"a", "b"}))
	assert.Equal(t, "n1, n2, n3 … n9 (9)", shortList(strings.Fields("n1 n2 n3 n4 n5 n6 n7 n8 n9")))
}

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{-time.Second: "0s", 119 * time.Second: "119s", 2 * time.Minute: "2m", 119 * time.Minute: "119m", 2 * time.Hour: "2h", 47 * time.Hour: "47h", 48 * time.Hour: "2d"} {
		assert.Equal(t, want, Age(d))
	}
}
