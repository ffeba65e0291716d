package kubesim

import (
	"encoding/base64"
	"encoding/json"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// page is a part of a list.
type page struct {
	limit   int    // 0: all
	Version int64  // of the list's first part
	Last    string // namespace and name of what was sent last
}

// page reads limit and continue.
func (t target) page(version int64) (page, error) {
	p := page{Version: version}
	if token := t.query.Get("continue"); token != "" {
		b, err := base64.RawURLEncoding.DecodeString(token)
		if err == nil {
			err = json.Unmarshal(b, &p)
		}
		if err != nil {
			return p, apierrors.NewBadRequest("continue key is not valid: " + err.Error())
		}
	}
	p.limit, _ = strconv.Atoi(t.query.Get("limit"))
	return p, nil
}

// reached reports whether an object comes after what was sent.
func (p page) reached(e *entry) bool {
	return p.Last == "" || key(e.u().GetNamespace(), e.u().GetName()) > p.Last
}

// next is the token for the rest of the list.
func (p page) next() string {
	b, _ := json.Marshal(p) // of a number and a text
	return base64.RawURLEncoding.EncodeToString(b)
}
