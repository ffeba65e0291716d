package agent

// Pure parts that are not exported.

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// Proxmox decodes the agent's base64 into bytes and writes each as a character.
func TestOctets(t *testing.T) {
	assert.Equal(t, []byte("h\xc3\xa9\x00\xff"), octets("h\u00c3\u00a9\x00\u00ff"))
	assert.Equal(t, []byte("€"), octets("€"))
}

// A silent agent is asked again after a quarter of its silence, within bounds.
func TestWhenASilentAgentIsAskedAgain(t *testing.T) {
	since := time.Unix(1000, 0)
	for silent, want := range map[time.Duration]time.Duration{0: 5 * time.Second, 20 * time.Second: 5 * time.Second, 40 * time.Second: 10 * time.Second, time.Minute: 15 * time.Second, time.Hour: 15 * time.Second} {
		s := silence{since: since, asked: since.Add(silent)}
		assert.Equal(t, want, s.retryAt().Sub(s.asked), silent)
	}
}

func TestSignalsAndASCII(t *testing.T) {
	for n, want := range map[int]string{9: "KILL", 15: "TERM", 64: "64"} {
		assert.Equal(t, want, signalName(n))
	}
	assert.Equal(t, []bool{true, true, false}, []bool{isASCII(nil), isASCII([]byte("a\x7f")), isASCII([]byte("\x80"))})
}
