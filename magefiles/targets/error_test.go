package targets

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/session"
	"github.com/cps-gpu/homelab/secret"
)

// coded is an error that brings its exit code along, as Mage's own do.
type coded struct{ error }

func (coded) ExitStatus() int { return 3 }

// TestTheLastErrorIsHarmless: the error with which a command ends has no secrets, and
// nothing in it that a terminal obeys, wherever its words come from.
func TestTheLastErrorIsHarmless(t *testing.T) {
	r := &secret.Redactor{}
	r.Add(secret.New("hunter2-hunter2"))
	c := &console.Console{Talk: io.Discard, Redact: r}
	foreign := errors.New("the notebook of \x1b]0;x\x07student3\u202e txt\r\n  run: kubectl get pods --token hunter2-hunter2 \x1b[2J")
	const said = "the notebook of student3\\u202e txt\n  run: kubectl get pods --token "
	for _, x := range []struct {
		err    error
		code   int
		answer bool
	}{
		{&session.Error{Code: 4, Err: foreign}, 4, true},
		{fmt.Errorf("further up: %w", &session.Error{Code: 130, Err: foreign}), 130, true},
		{foreign, 1, false},
		{coded{foreign}, 3, false},
	} {
		err := commandError(c, x.err)
		var ours *Error
		require.ErrorAs(t, err, &ours)
		assert.Equal(t, x.code, ours.ExitStatus())
		assert.Equal(t, x.answer, ours.Answer)
		assert.ErrorIs(t, err, x.err)
		for _, text := range []string{err.Error(), fmt.Sprintf("%+v", err)} { // which Mage prints
			assert.True(t, strings.HasPrefix(text, said), text)
			assert.NotContains(t, text, "hunter2")
			assert.NotContains(t, text, "\x1b")
		}
	}
	assert.NoError(t, commandError(c, nil))
}
