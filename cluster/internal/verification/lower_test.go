package verification

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// What a Job's name may not have is left out.
func TestLower(t *testing.T) { assert.Equal(t, "az09azx", lower("AZ09az-_/x{`@[:")) }
