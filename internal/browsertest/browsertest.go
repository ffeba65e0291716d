// Package browsertest drives a headless Chromium, for tests of what a person sees in a browser.
package browsertest

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Browser is a headless Chromium that is driven over a pipe, as its option
// --remote-debugging-pipe has it: objects of JSON that end with a NUL, to file descriptor 3 and
// from 4.
type Browser struct {
	t   testing.TB
	to  *os.File
	tab string // the session of the only tab

	mu      sync.Mutex
	next    int
	answers map[int]chan answer
	events  []event
}

type event struct {
	Method string
	Params json.RawMessage
}

type answer struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

// chromium is Debian's name of the program.
const chromium = "chromium"

// Open starts a browser with an empty tab and further options of Chromium's, or skips the test where there is none.
func Open(t testing.TB, options ...string) *Browser {
	t.Helper()
	program, err := exec.LookPath(chromium)
	if err != nil {
		if os.Getenv("CI") != "" && os.Getenv("HOMELAB_NO_BROWSER") == "" { // .ci/run sets it where it is not available
			t.Fatal("chromium is not installed: apt-get install chromium")
		}
		t.Skip("NOT DRAWN by a browser: chromium is not installed")
	}
	read3, write3, err := os.Pipe()
	require.NoError(t, err)
	read4, write4, err := os.Pipe()
	require.NoError(t, err)
	dir := t.TempDir()
	var said bytes.Buffer
	args := append([]string{"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe",
		"--no-first-run", "--disable-background-networking", "--disable-component-update", "--force-color-profile=srgb", "--user-data-dir=" + filepath.Join(dir, "profile")}, options...)
	cmd := exec.CommandContext(t.Context(), program, append(args, "about:blank")...)
	cmd.ExtraFiles = []*os.File{read3, write4}
	cmd.Env = append(os.Environ(), "HOME="+dir)
	cmd.Stderr = &said
	cmd.WaitDelay = 5 * time.Second
	require.NoError(t, cmd.Start())
	_, _ = read3.Close(), write4.Close()
	b := &Browser{t: t, to: write3, answers: map[int]chan answer{}}
	done := make(chan struct{})
	go func() { defer close(done); b.listen(read4) }()
	t.Cleanup(func() {
		b.send("", "Browser.close", nil)
		_ = cmd.Wait()
		_ = write3.Close()
		<-done
		_ = read4.Close()
		if t.Failed() {
			t.Logf("chromium: %.1000s", said.String())
		}
	})
	var target struct{ TargetID string }
	b.call("", "Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var session struct{ SessionID string }
	b.call("", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &session)
	b.tab = session.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.Do(domain+".enable", nil, nil)
	}
	return b
}

// listen takes answers and events until the browser ends.
func (b *Browser) listen(from *os.File) {
	r := bufio.NewReaderSize(from, 1<<20)
	for {
		text, err := r.ReadBytes(0)
		if err != nil {
			b.mu.Lock()
			for _, waits := range b.answers {
				close(waits)
			}
			b.answers = nil
			b.mu.Unlock()
			return
		}
		var m struct {
			ID int
			answer
			event
		}
		if json.Unmarshal(bytes.TrimSuffix(text, []byte{0}), &m) != nil {
			continue
		}
		b.mu.Lock()
		if waits := b.answers[m.ID]; waits != nil {
			delete(b.answers, m.ID)
			waits <- m.answer
		} else if m.Method != "" {
			b.events = append(b.events, m.event)
		}
		b.mu.Unlock()
	}
}

// send sends a command; the channel gets its answer.
func (b *Browser) send(session, method string, params any) chan answer {
	waits := make(chan answer, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.answers == nil {
		close(waits)
		return waits
	}
	b.next++
	m := map[string]any{"id": b.next, "method": method}
	if params != nil {
		m["params"] = params
	}
	if session != "" {
		m["sessionId"] = session
	}
	text, err := json.Marshal(m)
	if err == nil {
		_, err = b.to.Write(append(text, 0))
	}
	if err != nil {
		close(waits)
		return waits
	}
	b.answers[b.next] = waits
	return waits
}

// call sends a command and waits for its result.
func (b *Browser) call(session, method string, params, result any) {
	b.t.Helper()
	select {
	case a, ok := <-b.send(session, method, params):
		require.True(b.t, ok, "the browser ended during %s", method)
		require.Nil(b.t, a.Error, "%s: %v", method, a.Error)
		if result != nil {
			require.NoError(b.t, json.Unmarshal(a.Result, result))
		}
	case <-time.After(time.Minute):
		b.t.Fatalf("%s: no answer within a minute", method)
	}
}

// Do is call in the tab.
func (b *Browser) Do(method string, params, result any) {
	b.t.Helper()
	b.call(b.tab, method, params, result)
}

// Load opens a document from a file, and returns how many milliseconds passed until it was
// drawn: until the frame after the one that follows its load event.
func (b *Browser) Load(html string) (ms float64) {
	b.t.Helper()
	file := filepath.Join(b.t.TempDir(), "page.html")
	require.NoError(b.t, os.WriteFile(file, []byte(html), 0o600))
	b.forget()
	b.Do("Page.navigate", map[string]any{"url": "file://" + file}, nil)
	b.Eval(fmt.Sprintf(`new Promise(done => {
		const drawn = () => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now())))
		const look = () => document.readyState == "complete" && location.pathname == %q ? drawn() : setTimeout(look, 1)
		look()
	})`, file), &ms)
	return ms
}

func (b *Browser) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = nil
}

// Visit opens an address, and returns when its page is loaded.
func (b *Browser) Visit(url string) {
	b.t.Helper()
	b.forget()
	b.Do("Page.navigate", map[string]any{"url": url}, nil)
	b.WaitUntil(`location.href != "about:blank" && document.readyState == "complete"`)
}

// WaitUntil waits until an expression is true, whatever page the tab shows by then.
func (b *Browser) WaitUntil(js string) {
	b.t.Helper()
	end := time.After(time.Minute)
	for {
		var r struct{ Result struct{ Value any } }
		a, ok := <-b.send(b.tab, "Runtime.evaluate", map[string]any{"expression": js, "returnByValue": true})
		require.True(b.t, ok, "the browser ended")
		if a.Error == nil && json.Unmarshal(a.Result, &r) == nil && r.Result.Value == true {
			return
		}
		select {
		case <-end:
			var text string
			b.Eval(`location.href + " " + document.body.innerText`, &text)
			b.t.Fatalf("after a minute this is not true: %s; %.2000s", js, text)
		case <-time.After(20 * time.Millisecond): // between two questions, not a wait for an answer
		}
	}
}

// Eval runs an expression in the tab and waits for its promise.
func (b *Browser) Eval(js string, result any) {
	b.t.Helper()
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct{ Text string }
	}
	b.Do("Runtime.evaluate", map[string]any{"expression": js, "awaitPromise": true, "returnByValue": true}, &r)
	require.Nil(b.t, r.ExceptionDetails, "%s: %v", js, r.ExceptionDetails)
	if result != nil {
		require.NoError(b.t, json.Unmarshal(r.Result.Value, result))
	}
}

// View sets the width of the window, and the colours that the user prefers.
func (b *Browser) View(width int, scheme string) {
	b.t.Helper()
	b.Do("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false}, nil)
	b.Do("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// Picture is a PNG of the page's first pixels.
func (b *Browser) Picture(width, height int) []byte {
	b.t.Helper()
	var r struct{ Data string }
	b.Do("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true, "clip": map[string]any{"x": 0, "y": 0, "width": width, "height": height, "scale": 1}}, &r)
	data, err := base64.StdEncoding.DecodeString(r.Data)
	require.NoError(b.t, err)
	return data
}

// Complaints are the events that no page of ours causes: messages on the console, violated
// policies, and requests for anything but the document itself, or what is at one of the addresses.
func (b *Browser) Complaints(addresses ...string) (out []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.events {
		switch e.Method {
		case "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded":
			out = append(out, fmt.Sprintf("%s %s", e.Method, e.Params))
		case "Network.requestWillBeSent":
			var p struct{ Request struct{ URL string } }
			isOurs := func(address string) bool { return strings.HasPrefix(p.Request.URL, address) }
			if json.Unmarshal(e.Params, &p) != nil || !slices.ContainsFunc(append(addresses, "file://", "data:"), isOurs) {
				out = append(out, "request for "+p.Request.URL)
			}
		}
	}
	return out
}
