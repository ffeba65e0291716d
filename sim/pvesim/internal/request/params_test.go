package request

import (
	"encoding/json"
	"testing"
)

func FuzzBody(f *testing.F) {
	f.Add(`{"a":1,"b":[1,"x",true],"c":null}`, "a=1&b=2;c=%41")
	f.Fuzz(func(t *testing.T, body, form string) {
		p := Params{}
		if p.addJSON([]byte(body)) == nil && !json.Valid([]byte(body)) {
			// A decoder stops after the first value; what follows does not matter.
			t.Skip()
		}
		Params{}.addForm(form)
	})
}
