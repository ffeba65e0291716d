package answer

import (
	"encoding/json"
	"strings"
)

// PlainText is a file that is downloaded.
type PlainText string

// Listing is data with keys of its own beside it ("total").
type Listing struct {
	Data  any
	Total int
}

// DataWithDiff is data with the changes that wait to be applied beside it.
type DataWithDiff struct {
	Data any
	Diff string
}

// Encode writes JSON as Perl does, where < is itself.
func Encode(v any) []byte {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return []byte(`{"data":null}`)
	}
	return []byte(strings.TrimSuffix(b.String(), "\n"))
}

// Flag is how the API writes what is true or false.
func Flag(b bool) int {
	if b {
		return 1
	}
	return 0
}
