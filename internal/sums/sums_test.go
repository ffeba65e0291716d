package sums_test

import (
	"bufio"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/sums"
)

// The name of a file that was read as binary has a star, and what is not a checksum and a name is left out.
func TestRead(t *testing.T) {
	got, err := sums.Read(strings.NewReader("# a comment\n\n9d80  k3s\r\n8bd1 *images.tar.zst\n<html>\none two three\n"))
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"k3s": "9d80", "images.tar.zst": "8bd1"}, got)
	_, err = sums.Read(strings.NewReader(strings.Repeat("x", bufio.MaxScanTokenSize+1)))
	require.ErrorIs(t, err, bufio.ErrTooLong)
}
