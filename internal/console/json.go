package console

import (
	"bytes"
	"encoding/json"

	"github.com/cps-gpu/homelab/converge"
)

// jsonLines prints every event as a JSON object on a line, with the keys time,
// step, kind, diff, message, error (where there is one) and elapsedSeconds.
type jsonLines struct{ console *Console }

func (j *jsonLines) Listen(e converge.Event) {
	line := struct {
		converge.Event
		Error   string  `json:"error,omitempty"`
		Elapsed float64 `json:"elapsedSeconds"`
	}{Event: e, Elapsed: e.Elapsed.Seconds()}
	if e.Err != nil {
		line.Error = e.Err.Error()
	}
	_ = j.console.object(line) // a run continues when nobody reads any longer
}

func (j *jsonLines) Reset() {}

func (j *jsonLines) Close() {}

// planItem is one item of a plan, for programs.
type planItem struct {
	converge.Item
	Error string `json:"error,omitempty"`
}

func (c *Console) planJSON(p *converge.Plan) error {
	for _, it := range p.Items {
		line := planItem{Item: it}
		if it.Err != nil {
			line.Error = it.Err.Error()
		}
		if err := c.object(line); err != nil {
			return err
		}
	}
	return nil
}

// Objects prints each value as a JSON object on a line.
func Objects[T any](c *Console, values []T) error {
	for _, v := range values {
		if err := c.object(v); err != nil {
			return err
		}
	}
	return nil
}

// object prints a value in one call, with its secrets redacted.
func (c *Console) object(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	to := c.Data
	if w, ok := to.(redacting); ok {
		to = w.to // a number must stay a number, whatever it looks like
	}
	_, err = to.Write(append(c.hideStrings(b), '\n'))
	return err
}

// hideStrings redacts the secrets and words the commands in every string of a JSON text, in the decoded string.
func (c *Console) hideStrings(b []byte) []byte {
	var out bytes.Buffer
	for {
		i := bytes.IndexByte(b, '"')
		if i < 0 {
			break
		}
		end := i + 1
		for b[end] != '"' {
			if b[end] == '\\' {
				end++
			}
			end++
		}
		out.Write(b[:i])
		out.Write(c.hideString(b[i : end+1]))
		b = b[end+1:]
	}
	out.Write(b)
	return out.Bytes()
}

func (c *Console) hideString(quoted []byte) []byte {
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		return quoted
	}
	hidden := c.hide(s)
	if hidden == s {
		return quoted
	}
	b, _ := json.Marshal(hidden) // a string
	return b
}
