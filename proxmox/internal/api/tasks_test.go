package api

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestSharesOfWork(t *testing.T) {
	for line, want := range map[string]string{
		"": "", "transferred 1.0 GiB of 2.0 GiB (50.29%)": "50 %", "  1024K ........ ........ 10%  2M 1s   2048K ........ 20% 3M": "20 %", "100 %": "",
	} {
		assert.Equal(t, want, percentIn(line), line)
	}
	assert.True(t, isProgressLine("  1024K ........ ........"))
	assert.False(t, isProgressLine("..."))
}

// The next look at tasks is soon for young ones and few, and later for old ones and many.
func TestWhenTasksAreLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		due := func(looked time.Duration, ages ...time.Duration) time.Duration {
			n := &nodeTasks{byID: map[string]*watch{}}
			if looked > 0 {
				n.polled = start.Add(-looked)
			}
			for i, age := range ages {
				n.byID[strconv.Itoa(i)] = &watch{since: start.Add(-age)}
			}
			return n.nextPoll(time.Second).Sub(start)
		}
		const ms = time.Millisecond
		assert.Equal(t, 200*ms, due(0, 0))
		assert.Equal(t, 200*ms-100*ms, due(0, 100*ms))
		assert.Equal(t, 500*ms-100*ms, due(100*ms, 2*time.Second), "a quarter of its age after the last look")
		assert.Equal(t, time.Second-100*ms, due(100*ms, time.Minute), "not after most")
		assert.Equal(t, 500*ms-2*time.Second, due(3*time.Second, 2*time.Second), "the look was before it")
		assert.Equal(t, 800*ms-100*ms, due(100*ms, 2*time.Second, 0), "two, of which one is young")
		assert.Equal(t, time.Second-100*ms, due(100*ms, 0, 0, 2*time.Second))
		assert.Equal(t, 800*ms-2*time.Second, due(0, 2*time.Second, time.Second))
	})
}
