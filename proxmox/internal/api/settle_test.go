package api

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A pause is as long as is said, give or take a half.
func TestJitter(t *testing.T) {
	for range 500 {
		d := jitter(time.Second)
		assert.GreaterOrEqual(t, d, 500*time.Millisecond)
		assert.Less(t, d, 1500*time.Millisecond)
	}
}
