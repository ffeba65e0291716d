package systemd

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func FuzzUnitFile(f *testing.F) {
	f.Add("[Service]\nExecStart=/bin/a \\\n b\nExecStart=\n# c\n;d\nx\n=\n")
	f.Fuzz(func(t *testing.T, text string) {
		u := &unitFile{values: map[string][]string{}}
		u.parse([]byte(text))
		for _, v := range u.values {
			assert.NotEmpty(t, v)
		}
	})
}
