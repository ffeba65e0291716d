package session

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/secret"
)

// coded is an error that brings its exit code along, as Mage's own do.
type coded struct{ error }

func (coded) ExitStatus() int { return 3 }

// TestTheLastErrorIsHarmless: the error with which a command ends has no secrets, and
// nothing in it that a terminal obeys, wherever its words come from.
func TestTheLastErrorIsHarmless(t *testing.T) {
	var talk bytes.Buffer
	r := &secret.Redactor{}
	r.Add(secret.New("hunter2-hunter2"))
	c := &console.Console{Talk: &talk, Redact: r}
	foreign := errors.New("the notebook of \x1b]0;x\x07student3\u202e txt\r\n  run: kubectl get pods --token hunter2-hunter2 \x1b[2J")
	const said = "the notebook of student3\\u202e txt\n  run: kubectl get pods --token "
	for _, x := range []struct {
		err  error
		code int
		said string
	}{
		{failedf(refused, "%w", foreign), refused, said},
		{fmt.Errorf("further up: %w", failedf(130, "%w", foreign)), 130, said},
		{foreign, 1, "Error: " + said},
		{coded{foreign}, 3, "Error: " + said},
	} {
		talk.Reset()
		assert.Equal(t, x.code, Fail(c, x.err))
		assert.Contains(t, talk.String(), x.said)
		assert.NotContains(t, talk.String(), "hunter2")
		assert.NotContains(t, talk.String(), "\x1b")
	}
}
