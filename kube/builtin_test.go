package kube

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// Every kind that client-go's scheme knows is known by its Go type.
func TestBuiltIn(t *testing.T) {
	n := 0
	for kind, is := range scheme.Scheme.AllKnownTypes() {
		if kind.Version == runtime.APIVersionInternal || !strings.HasPrefix(is.PkgPath(), "k8s.io/api/") {
			continue
		}
		n++
		got, ok := builtIn(reflect.New(is).Interface().(runtime.Object))
		assert.True(t, ok, kind)
		assert.Equal(t, kind, got)
	}
	assert.Greater(t, n, 200)
}
