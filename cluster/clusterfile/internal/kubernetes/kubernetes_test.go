package kubernetes

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
)

// TestSharedKeys: each distribution has the keys that all have, and a value of each key is moved to where that of K3s is
// and nowhere else.
func TestSharedKeys(t *testing.T) {
	for i := range all(&spec.Spec{}) {
		s, c := &spec.Spec{}, decode.NewChecker("cluster.yaml")
		r := all(s)[i]
		keys := decode.Keys(reflect.TypeOf(r.section).Elem())
		assert.Subset(t, keys, decode.Keys(reflect.TypeFor[spec.Kubernetes]()), r.name)
		for _, key := range keys {
			to := decode.FieldPlace(&s.K3s, r.keyOfK3s(key))
			if to == nil {
				continue // its own
			}
			from := reflect.ValueOf(decode.FieldPlace(r.section, key)).Elem()
			from.Set(some(from.Type()))
			move(c, from.Addr().Interface(), to)
			assert.Equal(t, some(from.Type()).Interface(), reflect.ValueOf(to).Elem().Interface(), "%s.%s", r.name, key)
			assert.True(t, from.IsZero(), "%s.%s", r.name, key)
		}
	}
}

// some is a value that is not zero.
func some(of reflect.Type) reflect.Value {
	v := reflect.New(of).Elem()
	switch of.Kind() {
	case reflect.Slice:
		v.Set(reflect.MakeSlice(of, 1, 1))
	case reflect.String:
		v.SetString("x")
	case reflect.Struct:
		if decode.IsSection(of) {
			v.Field(0).Set(some(of.Field(0).Type))
		}
	}
	return v
}
