package cluster

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLookIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int32
		l := newLook(func(context.Context) (int32, error) {
			time.Sleep(100 * time.Millisecond)
			return reads.Add(1), nil
		})
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				v, err := l.get(t.Context())
				assert.NoError(t, err)
				assert.EqualValues(t, 1, v)
			})
		}
		wg.Wait()
		l.forget()
		v, err := l.get(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 2, v)
		time.Sleep(fresh)
		v, err = l.get(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 3, v)
	})
}

func TestLookForgetsWhatWasReadBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		world := 1
		l := newLook(func(context.Context) (int, error) {
			seen := world
			time.Sleep(time.Second)
			return seen, nil
		})
		go func() { _, _ = l.get(t.Context()) }()
		synctest.Wait()
		world = 2
		l.forget()
		time.Sleep(2 * time.Second)
		v, err := l.get(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 2, v)
	})
}

func TestLookErrors(t *testing.T) {
	fail := errors.New("refused")
	l := newLook(func(context.Context) (int, error) { return 0, fail })
	_, err := l.get(t.Context())
	assert.ErrorIs(t, err, fail)
	fail = nil
	_, err = l.get(t.Context())
	assert.NoError(t, err)
}
