package harvester

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

const (
	oneKey     = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMIsgk27O3Lp3yZaIls51NR2Jlh6v8ByWghMepTRIJdh"
	anotherKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILO/9K0MlwYVO6au3TUn0wrXVFS8ouvEMEAI7H0BnVEL"
)

// printed is what a console has after a boot.
func printed(keys ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(keys, "\n") + "\n"))
	out := "[   12.1] a kernel's word\r\n" + beginMark + "\r\n"
	for _, k := range keys {
		out += keyMark + k + "\r\n"
	}
	return out + endMark + hex.EncodeToString(sum[:]) + "\r\nlogin: \r\n"
}

func TestParseHostKeys(t *testing.T) {
	whole := printed(oneKey+" root@a", anotherKey)
	for name, x := range map[string]struct {
		log  string
		want []string
	}{
		"nothing":                     {"", nil},
		"all keys":                    {whole, []string{oneKey, anotherKey}},
		"the newest boot":             {printed(oneKey) + printed(anotherKey), []string{anotherKey}},
		"the newest is not whole":     {printed(oneKey) + strings.TrimSuffix(printed(anotherKey), "\r\nlogin: \r\n")[:200], nil},
		"a line between":              {strings.Replace(whole, beginMark+"\r\n", beginMark+"\r\n[   13.0] usb 1-1: new device\r\n", 1), []string{oneKey, anotherKey}},
		"a word before a key":         {strings.Replace(whole, keyMark, "[   13.0] usb"+keyMark, 1), []string{oneKey, anotherKey}},
		"a word in a key":             {strings.Replace(whole, "AAAAC3", "AAAA[  13.0]C3", 1), nil},
		"a key is lost":               {strings.Replace(whole, keyMark, "lost ", 1), nil},
		"a key is another":            {strings.Replace(whole, oneKey, anotherKey, 1), nil},
		"a text that is none":         {printed("ssh-ed25519 AAAA"), nil},
		"another type than it claims": {printed(strings.Replace(oneKey, "ssh-ed25519", "ssh-rsa", 1)), nil},
	} {
		assert.Equal(t, x.want, parseHostKeys([]byte(x.log)), name)
	}
}

// FuzzHostKeys: whatever is on a console, all that is found are keys, and what is printed after it is found.
func FuzzHostKeys(f *testing.F) {
	f.Add([]byte(printed(oneKey)))
	f.Add([]byte(beginMark + "\n" + endMark))
	f.Fuzz(func(t *testing.T, log []byte) {
		for _, k := range parseHostKeys(log) {
			words := strings.Fields(k)
			if len(words) != 2 || !isKey(words[0], words[1]) {
				t.Fatalf("%q is not a key", k)
			}
		}
		assert.Equal(t, []string{oneKey}, parseHostKeys(append(log, []byte("\n"+printed(oneKey))...)))
	})
}
