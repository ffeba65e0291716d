package run

import (
	"context"
	"reflect"
	"sync"
)

// memoryKey is the context key of the memory.
type memoryKey struct{}

// memory holds one value of each type.
type memory struct{ values sync.Map }

// Begin returns a context for one Plan or Run. It remembers nothing yet, since everything may have
// changed since the last one.
func Begin(ctx context.Context) context.Context {
	return context.WithValue(ctx, memoryKey{}, &memory{})
}

// Of returns the T that this Plan or Run remembers, which starts as the zero value. All callers in
// one run get the same T, so T guards itself. A context without a run remembers nothing.
func Of[T any](ctx context.Context) *T {
	m, ok := ctx.Value(memoryKey{}).(*memory)
	if !ok {
		return new(T)
	}
	v, _ := m.values.LoadOrStore(reflect.TypeFor[T](), new(T))
	return v.(*T)
}
