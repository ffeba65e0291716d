package run

import (
	"context"
	"reflect"
	"sync"
)

// memoryKey is the memory that a context carries.
type memoryKey struct{}

// memory holds one value of each type.
type memory struct{ values sync.Map }

// Begin is a context for one Plan or Run, which remembers nothing yet: the world may have
// changed since the last one.
func Begin(ctx context.Context) context.Context {
	return context.WithValue(ctx, memoryKey{}, &memory{})
}

// Of returns the T that this Plan or Run remembers, at first a zero one. All callers with
// the same run get the same T, so it guards itself. A context without a run remembers nothing.
func Of[T any](ctx context.Context) *T {
	m, ok := ctx.Value(memoryKey{}).(*memory)
	if !ok {
		return new(T)
	}
	v, _ := m.values.LoadOrStore(reflect.TypeFor[T](), new(T))
	return v.(*T)
}
