package api

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestMajorOfAVersion(t *testing.T) {
	for v, major := range map[string]int{"9.2.11": 9, "10.1": 10, "x": 0} {
		assert.Equal(t, major, Version{Version: v}.Major())
	}
}
