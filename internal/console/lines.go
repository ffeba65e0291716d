package console

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/secret"
)

// plain prints a line for what matters: what is done, how it ended.
type plain struct {
	mu sync.Mutex
	to io.Writer
}

func (p *plain) Listen(e converge.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if line := sentence(e); line != "" {
		_, _ = fmt.Fprintf(p.to, "%s  %-22s %s\n", e.Time.Format("15:04:05"), e.Step, line)
	}
}

func (p *plain) Close() {}

// sentence says what an event means, or "" when it is not worth a line.
func sentence(e converge.Event) string {
	switch e.Kind {
	case converge.Acting:
		return e.Diff.Effect().String() + ": " + oneLine(e.Diff.String())
	case converge.Waiting:
		return "waiting: " + oneLine(e.Message)
	case converge.Changed:
		return "done in " + short(e.Elapsed)
	case converge.FailedStep:
		return "FAILED: " + oneLine(fmt.Sprint(e.Err))
	case converge.Skipped:
		return "skipped, " + e.Message
	case converge.Cancelled:
		return "cancelled"
	}
	return ""
}

// jsonLines prints every event as a JSON object on a line.
type jsonLines struct {
	mu     sync.Mutex
	to     io.Writer
	redact *secret.Redactor
}

func (j *jsonLines) Listen(e converge.Event) {
	line := struct {
		converge.Event
		Error   string  `json:"error,omitempty"`
		Elapsed float64 `json:"elapsedSeconds"`
	}{Event: e, Elapsed: e.Elapsed.Seconds()}
	if e.Err != nil {
		line.Error = e.Err.Error()
	}
	b, err := json.Marshal(line)
	if err != nil {
		return // an Event has nothing in it that cannot be marshalled
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	_, _ = j.to.Write(append(b, '\n'))
}

func (j *jsonLines) Close() {}
