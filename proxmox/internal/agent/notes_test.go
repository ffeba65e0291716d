package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestNotes(t *testing.T) {
	var n notes[string]
	n.set(100, "a")
	what, known := n.get(100, time.Hour)
	assert.True(t, known && what == "a")
	_, known = n.get(101, time.Hour)
	assert.False(t, known)
	n.forget(100)
	_, known = n.get(100, time.Hour)
	assert.False(t, known)
}
