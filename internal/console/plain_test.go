package console

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/secret"
)

const token = `t0k3n-"with <quotes>&\ 12345`

// events is a run in which everything happens once.
func events() []converge.Event {
	start := time.Date(2026, 11, 20, 19, 30, 0, 0, time.UTC)
	at := func(s float64, step string, kind converge.Kind, change func(*converge.Event)) converge.Event {
		d := time.Duration(s * float64(time.Second))
		e := converge.Event{Time: start.Add(d), Step: step, Kind: kind, Elapsed: d}
		if change != nil {
			change(&e)
		}
		return e
	}
	diff := func(d ...converge.Field) func(*converge.Event) {
		return func(e *converge.Event) { e.Diff = d }
	}
	says := func(m string) func(*converge.Event) { return func(e *converge.Event) { e.Message = m } }
	waits := func(have string) func(*converge.Event) {
		return func(e *converge.Event) {
			e.Diff = converge.Diff{{Have: have, Want: "a login over SSH", Effect: converge.Create}}
			e.Message = e.Diff.String()
		}
	}
	return []converge.Event{
		at(0, "proxmox", converge.Checking, nil),
		at(0.1, "proxmox", converge.Unchanged, nil),
		at(0.1, "vm/wk-gpu1", converge.Checking, nil),
		at(0.2, "vm/wk-gpu1", converge.Progress, says("looking")),
		at(0.2, "vm/wk-gpu1", converge.Acting, diff(converge.Missing("16 cores, 128GiB, 2 GPUs")...)),
		at(1, "vm/wk-gpu1", converge.Progress, says("cloning wk-gpu1 with "+token)),
		at(32, "vm/wk-gpu1", converge.Progress, says("starting wk-gpu1,\n up to 4m12s")),
		at(40, "vm/wk-gpu1", converge.Changed, nil),
		at(40, "guest/wk-gpu1", converge.Checking, nil),
		at(41, "guest/wk-gpu1", converge.Waiting, waits("no route to host")),
		at(43, "guest/wk-gpu1", converge.Waiting, waits("connection refused")),
		at(73, "guest/wk-gpu1", converge.Waiting, waits("connection refused by "+token)),
		at(75, "guest/wk-gpu1", converge.Waiting, func(e *converge.Event) { e.Message = "Get \"https://x\": EOF" }),
		at(90, "guest/wk-gpu1", converge.FailedStep, func(e *converge.Event) {
			e.Err = errors.New("first boot failed: " + token + "\n  see /var/log/cloud-init-output.log")
		}),
		at(90, "k3s/wk-gpu1", converge.Skipped, says("needs guest/wk-gpu1")),
		at(90, "k3s/wk-gpu2", converge.Skipped, says("needs guest/wk-gpu1")),
		at(90, "node/wk-gpu1", converge.Skipped, says("needs k3s/wk-gpu1")),
		at(91, "vm/cp1", converge.Checking, nil),
		at(91, "vm/cp1", converge.Acting, diff(converge.Field{Path: "memory", Have: "16GiB", Want: "32GiB", Effect: converge.Restart})),
		at(95, "vm/cp1", converge.Cancelled, nil),
	}
}

func TestPlain(t *testing.T) {
	c := capture(0, token)
	d := c.Display(nil)
	require.IsType(t, &plainDisplay{}, d)
	for _, e := range events() {
		d.Listen(e)
	}
	end := c.talk.Len()
	d.Close()
	golden(t, "plain.txt", c.talk.String()[:end])
	assert.Equal(t, "not started, because a step they need failed: k3s ×2, node\n", c.talk.String()[end+33:])
	assert.Empty(t, c.data.String(), "talk is not data")
	assert.NotContains(t, c.talk.String(), "12345")
}

// shared is written by timers and read by the test.
type shared struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *shared) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// What a step waits for last is said, also when it comes soon after another line.
func TestPlainSaysTheLastWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, talk := capture(0, token), &shared{}
		c.Talk = talk
		d := c.Display(nil)
		now := func(kind converge.Kind, message string) {
			d.Listen(converge.Event{Time: time.Now(), Step: "verify/wk1", Kind: kind, Message: message})
		}
		now(converge.Acting, "")
		time.Sleep(2 * time.Second)
		now(converge.Waiting, "nothing is known")
		time.Sleep(time.Second)
		now(converge.Waiting, "its node is full")
		time.Sleep(20 * time.Second)
		assert.NotContains(t, talk.String(), "waiting")
		time.Sleep(10 * time.Minute)
		assert.Equal(t, 1, strings.Count(talk.String(), "waiting: its node is full"))
		assert.NotContains(t, talk.String(), "nothing is known")
		now(converge.Waiting, "said at once")
		now(converge.Waiting, "not worth it any more")
		now(converge.Changed, "")
		time.Sleep(10 * time.Minute)
		assert.Contains(t, talk.String(), "said at once")
		assert.NotContains(t, talk.String(), "not worth it")
		d.Close()
	})
}

func TestPlainBeginsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, talk := capture(0), &shared{}
		c.Talk = talk
		d := c.Display(nil)
		d.Listen(converge.Event{Time: time.Now(), Step: "a", Kind: converge.Skipped})
		d.Listen(converge.Event{Time: time.Now(), Step: "b", Kind: converge.Acting})
		d.Listen(converge.Event{Time: time.Now(), Step: "b", Kind: converge.Waiting, Message: "it boots"})
		before := talk.String()
		d.Reset()
		time.Sleep(10 * time.Minute)
		d.Close()
		assert.Equal(t, before, talk.String())
	})
}

func TestJSONLines(t *testing.T) {
	c := capture(0, token)
	c.JSON = true
	d := c.Display(nil)
	for _, e := range events() {
		d.Listen(e)
	}
	d.Close()
	assert.Empty(t, c.talk.String())
	golden(t, "events.jsonl", c.data.String())
	assert.NotContains(t, c.data.String(), "12345")

	// What programs rely on: these keys, with these types, and no others.
	kinds := map[string]bool{}
	for line := range bytes.Lines(c.data.Bytes()) {
		var e map[string]any
		require.NoError(t, json.Unmarshal(line, &e), "%s", line)
		for _, key := range slices.Sorted(maps.Keys(e)) {
			assert.Contains(t, []string{"time", "step", "kind", "diff", "message", "error", "elapsedSeconds"}, key)
		}
		_, err := time.Parse(time.RFC3339Nano, e["time"].(string))
		require.NoError(t, err)
		assert.IsType(t, "", e["step"])
		assert.IsType(t, 0.0, e["elapsedSeconds"])
		kinds[e["kind"].(string)] = true
	}
	assert.Len(t, kinds, 9, "every kind of event is in the test")
}

// A secret of digits alone must not turn a number into something else.
func TestJSONStaysJSON(t *testing.T) {
	c := capture(0, "1234", `a"b\c`, "step")
	require.NoError(t, Objects(c.Console, []map[string]any{
		{"n": 1234.5, "s": "pin 1234", "q": `x a"b\c y`, "nested": []any{"é\u2028 1234", `{"t":"a\"b\\c"}`}},
	}))
	var got map[string]any
	require.NoError(t, json.Unmarshal(c.data.Bytes(), &got))
	assert.Equal(t, map[string]any{
		"n": 1234.5, "s": "pin [secret]", "q": "x [secret] y", "nested": []any{"é\u2028 [secret]", `{"t":"[secret]"}`},
	}, got)
	assert.Equal(t, 1, strings.Count(c.data.String(), "\n"))
}

func TestObjectsSayWhenNobodyReads(t *testing.T) {
	c := &Console{Data: full{}}
	require.ErrorContains(t, Objects(c, []int{1}), "no space")
	require.ErrorContains(t, Objects(c, []any{make(chan int)}), "chan")
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space") }

func FuzzHideStrings(f *testing.F) {
	f.Add("value", "secret", 12.5)
	f.Add(`a "secret" \`, `"secret"`, 1.0)
	f.Fuzz(func(t *testing.T, value, hidden string, n float64) {
		c := capture(0, hidden)
		b, err := json.Marshal(map[string]any{"k": value, "n": n})
		if err != nil {
			t.Skip() // NaN
		}
		var plain, got map[string]any
		require.NoError(t, json.Unmarshal(b, &plain))
		require.NoError(t, json.Unmarshal(c.hideStrings(b), &got))
		if len(got) == 2 && got["k"] != nil { // unless a key is a secret
			assert.Equal(t, c.hide(plain["k"].(string)), got["k"])
			assert.Equal(t, plain["n"], got["n"])
		}
	})
}

func TestAdviceIsGivenOnce(t *testing.T) {
	c := capture(0)
	d := c.Display(nil)
	for _, node := range []string{"cp1", "cp2"} {
		d.Listen(converge.Event{Step: "seed/" + node, Kind: converge.FailedStep, Err: errors.New("upload of " + node + " refused\n  grant Datastore.AllocateTemplate\n\n  (to the token)")})
	}
	d.Listen(converge.Event{Step: "vm/cp3", Kind: converge.FailedStep, Err: errors.New("another")})
	assert.Equal(t, `00:00:00  seed/cp1               FAILED: upload of cp1 refused
    grant Datastore.AllocateTemplate
    (to the token)
00:00:00  seed/cp2               FAILED: upload of cp2 refused
    what to do: see above
00:00:00  vm/cp3                 FAILED: another
`, c.talk.String())
}

// A check that hangs is said within seconds, with what it does, and again; one that ends soon is not.
func TestPlainSaysWhatACheckWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := capture(0)
		d := c.Display(nil)
		text := func() string {
			d := d.(*plainDisplay)
			d.mu.Lock()
			defer d.mu.Unlock()
			return c.talk.String()
		}
		tell := func(step string, kind converge.Kind, message string) {
			d.Listen(converge.Event{Time: time.Now(), Step: step, Kind: kind, Message: message})
		}
		tell("login/n2", converge.Checking, "")
		tell("login/n1", converge.Checking, "")
		time.Sleep(time.Second)
		tell("login/n1", converge.Progress, "connecting to 10.0.0.1:22")
		time.Sleep(3 * time.Second)
		tell("login/n2", converge.Unchanged, "")
		assert.Empty(t, text())
		time.Sleep(2 * time.Second)
		assert.Equal(t, "00:00:05  login/n1               connecting to 10.0.0.1:22\n", text())
		tell("login/n1", converge.Progress, "cannot reach 10.0.0.1:22")
		time.Sleep(time.Minute)
		tell("login/n1", converge.Unchanged, "")
		time.Sleep(time.Minute)
		assert.Equal(t, "00:00:35  login/n1               cannot reach 10.0.0.1:22", strings.Split(text(), "\n")[1])
		assert.Equal(t, 2, strings.Count(text(), "\n"))
	})
}

// What a step does is in one word, and how it ended in a few.
func TestPlainSentences(t *testing.T) {
	c := capture(0)
	p := c.Display(nil)
	for _, e := range []converge.Event{
		{Kind: converge.Acting, Diff: converge.Missing("x")}, {Kind: converge.Acting, Diff: converge.Diff{{Have: "old", Want: "x", Effect: converge.Create}}},
		{Kind: converge.Acting, Diff: converge.DiffUnwanted("x")}, {Kind: converge.Acting, Diff: converge.Compare("a", "b", "x", converge.Replace)},
		{Kind: converge.Acting, Diff: converge.Compare("a", "b", "x", converge.Update)},
		{Kind: converge.Cancelled}, {Kind: converge.Cancelled, Err: errors.New("one\ntwo")},
	} {
		e.Step = "vm/a"
		p.Listen(e)
	}
	p.Close()
	var got []string
	for line := range strings.Lines(c.talk.String()) {
		if words := strings.Fields(line); len(words) > 2 { // the second line of an error has one
			got = append(got, strings.Join(words[2:], " "))
		}
	}
	assert.Equal(t, []string{"create: x", "change: old → x", "remove: x", "replace: a: b → x, needs a replacement", "change: a: b → x", "stopped", "stopped after: one"}, got)
}

// Without a terminal nothing is live, and the program of a release names itself.
func TestNew(t *testing.T) {
	was := os.Args[0]
	defer func() { os.Args[0] = was }()
	for arg, program := range map[string]string{"/usr/bin/homelab": "homelab", `homelab.exe`: "homelab", "/tmp/mage": ""} {
		os.Args[0] = arg
		for _, asJSON := range []bool{false, true} {
			c := New(asJSON)
			assert.Equal(t, []any{program, asJSON, false}, []any{c.Program, c.JSON, c.Live})
		}
	}
	assert.Equal(t, face{}, faceOf(os.NewFile(^uintptr(0), "none")))
	n, err := redacting{full{}, &secret.Redactor{}}.Write([]byte("abc"))
	assert.Zero(t, n)
	assert.EqualError(t, err, "no space")
}
