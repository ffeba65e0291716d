package modelserver

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// maxEvent is the longest line of a stream that is read, in bytes.
const maxEvent = 1 << 20

// events calls use with the data of each event of a stream of server-sent events, in order, until use
// returns an error. Fields other than data, and an event that the end of the stream cuts off, are ignored
// (https://html.spec.whatwg.org/multipage/server-sent-events.html).
func events(stream io.Reader, use func(data []byte) error) error {
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, maxEvent)
	var data []byte
	some := false
	for lines.Scan() {
		line := bytes.TrimSuffix(lines.Bytes(), []byte("\r"))
		if len(line) == 0 {
			if some {
				if err := use(data); err != nil {
					return err
				}
			}
			data, some = nil, false
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		if string(field) != "data" {
			continue
		}
		if some {
			data = append(data, '\n')
		}
		data, some = append(data, bytes.TrimPrefix(value, []byte(" "))...), true
	}
	return lines.Err()
}

// Answer is what a model answered, and how fast.
type Answer struct {
	Text       string
	FirstToken time.Duration // from the request to the first piece of text
	Tokens     int           // as the engine counts them; 0: it did not say
	Rate       float64       // tokens per second after the first; 0: not measured
}

// chunk is an event of a streamed chat completion. Engines write a model's thoughts as one of two keys.
type chunk struct {
	Choices []struct {
		Delta struct {
			Content          string `json:"content"`
			ReasoningContent string `json:"reasoning_content"`
			Reasoning        string `json:"reasoning"`
		} `json:"delta"`
	} `json:"choices"`
	Usage *struct {
		CompletionTokens int `json:"completion_tokens"`
	} `json:"usage"`
	Error json.RawMessage `json:"error"`
}

// errDone ends the reading of a stream.
var errDone = errors.New("done")

// readAnswer reads a streamed chat completion, which was asked for at a time.
func readAnswer(stream io.Reader, asked time.Time) (Answer, error) {
	var a Answer
	var first, last time.Time
	err := events(stream, func(data []byte) error {
		if string(data) == "[DONE]" {
			return errDone
		}
		var c chunk
		if err := json.Unmarshal(data, &c); err != nil {
			return fmt.Errorf("the stream has an event that is not JSON: %w", err)
		}
		if len(c.Error) > 0 && string(c.Error) != "null" {
			return &EngineError{Message: messageOf(data)}
		}
		if c.Usage != nil {
			a.Tokens = c.Usage.CompletionTokens
		}
		for _, choice := range c.Choices {
			text := choice.Delta.ReasoningContent + choice.Delta.Reasoning + choice.Delta.Content
			if text == "" {
				continue
			}
			last = time.Now()
			if first.IsZero() {
				first = last
				a.FirstToken = first.Sub(asked)
			}
			a.Text += text
		}
		return nil
	})
	if err == nil {
		err = errors.New("the stream ended before the answer was complete")
	}
	if !errors.Is(err, errDone) {
		return a, err
	}
	if a.Text == "" {
		return a, errors.New("the answer is empty")
	}
	if span := last.Sub(first); a.Tokens > 1 && span > 0 {
		a.Rate = float64(a.Tokens-1) / span.Seconds()
	}
	return a, nil
}

// EngineError is an error that an engine answered with.
type EngineError struct {
	Status  int // of HTTP; 0: it came in a stream
	Message string
}

// Error returns the engine's message.
func (e *EngineError) Error() string {
	if e.Status == 0 {
		return "the engine says: " + e.Message
	}
	return fmt.Sprintf("the engine answers HTTP %d: %s", e.Status, e.Message)
}

// messageOf is the message of an error as OpenAI's API has it, or as vLLM before 0.10 wrote it; else the text.
func messageOf(body []byte) string {
	var e struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
	}
	if json.Unmarshal(body, &e) == nil {
		var nested struct {
			Message string `json:"message"`
		}
		switch {
		case json.Unmarshal(e.Error, &nested) == nil && nested.Message != "":
			return clean(nested.Message)
		case e.Message != "":
			return clean(e.Message)
		}
	}
	return clean(string(bytes.TrimSpace(body)))
}
