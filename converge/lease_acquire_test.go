package converge_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
)

// lossy is a diary whose requests are done, or not, and whose answers say something else.
type lossy struct {
	*diary
	create, replace func(do func() error) error
}

func (l lossy) Create(ctx context.Context, text string) error {
	do := func() error { return l.diary.Create(ctx, text) }
	if l.create == nil {
		return do()
	}
	return l.create(do)
}

func (l lossy) Replace(ctx context.Context, over converge.LeaseRecord, text string) error {
	do := func() error { return l.diary.Replace(ctx, over, text) }
	if l.replace == nil {
		return do()
	}
	return l.replace(do)
}

// write is what another run does to the lease.
func (s *shelf) write(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.there, s.text, s.version = true, text, s.version+1
}

// A run that cannot read or make the lease has none, and does not wait for what does not pass.
func TestWhoGetsNoLease(t *testing.T) {
	broken := errors.New("certificate expired")
	for name, store := range map[string]func() converge.LeaseStore{
		"cannot read": func() converge.LeaseStore {
			d := diaryOf(&shelf{})
			d.fails = func(what string) error { return map[string]error{"look": broken}[what] }
			return d
		},
		"cannot make": func() converge.LeaseStore {
			return lossy{diary: diaryOf(&shelf{}), create: func(func() error) error { return broken }}
		},
		"another was quicker": func() converge.LeaseStore {
			s := &shelf{}
			return lossy{diary: diaryOf(s), create: func(func() error) error { s.write("holder: student3\nrun: other"); return broken }}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			_, l, err := converge.AcquireLease(t.Context(), store(), claim("teacher"), patient)
			require.ErrorIs(t, err, broken, name)
			assert.Nil(t, l)
			assert.EqualError(t, err, "the right to change cluster home: certificate expired")
		})
	}
}

// An answer that was lost is found by looking, at once.
func TestTheAnswerToTheFirstRequestIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := lossy{diary: diaryOf(&shelf{}), create: func(do func() error) error { return errors.Join(do(), errors.New("connection reset")) }}
		_, l, err := converge.AcquireLease(t.Context(), store, claim("teacher"), impatient)
		require.NoError(t, err)
		assert.Zero(t, time.Since(store.begin))
		assert.Equal(t, []string{"look 0s", "make 0s", "look 0s"}, store.take())
		require.NoError(t, l.Check(t.Context()))
		assert.Equal(t, 5*time.Second, time.Since(store.begin), "it is new")
		require.NoError(t, l.Release(t.Context()))
	})
}

// Of two who take over from a dead run, one does.
func TestAnotherTakesOverFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{there: true, text: "holder: teacher\nrun: dead\nbeat: 7"}
		store := lossy{diary: diaryOf(s), replace: func(func() error) error {
			s.write("holder: student3\nrun: other\nbeat: 0")
			return converge.ErrLeaseStale
		}}
		told := []string{}
		_, _, err := converge.AcquireLease(t.Context(), store, claim("student1"), func(h converge.LeaseHolder) error {
			if told = append(told, h.Holder); h.Holder == "student3" {
				return impatient(h)
			}
			return nil
		})
		require.ErrorAs(t, err, new(*converge.LeaseHeldError))
		assert.Equal(t, 90*time.Second, time.Since(store.begin))
		assert.Equal(t, []string{"teacher", "student3"}, told, "each is reported once")
	})
}

// A holder whose process has certainly ended is not waited for. Nobody is asked about one without a process.
func TestWhoseProcessHasEnded(t *testing.T) {
	ended := func(p string) bool { return p != "7@desk" }
	for _, x := range []struct {
		process string
		dead    func(string) bool
		after   time.Duration
	}{
		{"6@desk", ended, 0}, {"7@desk", ended, 90 * time.Second}, {"6@desk", nil, 90 * time.Second}, {"", ended, 90 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &shelf{there: true, text: "holder: teacher\nrun: another\nprocess: " + x.process + "\nbeat: 7"}
			mine, begin := claim("teacher"), time.Now()
			mine.Process, mine.Dead = "8@desk", x.dead
			_, l, err := converge.AcquireLease(t.Context(), open(s), mine, patient)
			require.NoError(t, err)
			assert.Equal(t, x.after, time.Since(begin), "%+v", x.process)
			assert.Contains(t, s.text, "process: 8@desk")
			require.NoError(t, l.Release(t.Context()))
		})
	}
}

// While the store is locked, silence means nothing, also of a process that has ended.
func TestALockedLeaseIsNotTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{there: true, text: "holder: teacher\nrun: another\nprocess: 6@desk\nbeat: 7", locked: "backup"}
		mine, begin := claim("teacher"), time.Now()
		mine.Dead = func(string) bool { return true }
		go func() {
			time.Sleep(2*time.Minute + 58*time.Second)
			s.lock("")
		}()
		_, l, err := converge.AcquireLease(t.Context(), open(s), mine, patient)
		require.NoError(t, err)
		assert.Equal(t, 3*time.Minute, time.Since(begin))
		require.NoError(t, l.Release(t.Context()))

		s = &shelf{there: true, text: "holder: teacher\nrun: another\nbeat: 7", locked: "backup"}
		begin = time.Now()
		_, _, err = converge.AcquireLease(t.Context(), open(s), claim("student1"), patient)
		require.True(t, converge.IsPermanent(err))
		require.ErrorContains(t, err, "the shelf is locked (backup), for 10m0s now")
		assert.Equal(t, 10*time.Minute, time.Since(begin), "to the second")
	})
}
