package pvesim

import (
	"encoding/json"
	"strings"
)

// plainText is a file that is downloaded.
type plainText string

// listing is data with keys of its own beside it ("total").
type listing struct {
	data  any
	total int
}

// changed is data with the changes that wait to be applied beside it.
type changed struct {
	data any
	diff string
}

func encode(v any) []byte {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return []byte(`{"data":null}`)
	}
	return []byte(strings.TrimSuffix(b.String(), "\n"))
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
