package cluster_test

import (
	"bufio"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// diary keeps which runs were survived, so that a campaign of hours can be interrupted.
type diary struct {
	mu   sync.Mutex
	kept map[string]bool
	file *os.File // nil: nobody wants it
}

// newDiary reads the file of -campaign.done, of a campaign of so many runs.
func newDiary(t *testing.T, runs int) *diary {
	d := &diary{kept: map[string]bool{}}
	if *campaignDone == "" {
		return d
	}
	var err error
	d.file, err = os.OpenFile(*campaignDone, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	require.NoError(t, err)
	for lines := bufio.NewScanner(d.file); lines.Scan(); {
		d.kept[lines.Text()] = true
	}
	fmt.Printf("%d runs, %d of them survived before\n", runs, len(d.kept))
	return d
}

func (d *diary) has(a attempt) bool { return d.kept[a.String()] }

// add keeps a run that was survived, and tells at once of another.
func (d *diary) add(a attempt, survived bool) {
	if d.file == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !survived {
		fmt.Printf("not survived: %s\n", a)
		return
	}
	_, _ = fmt.Fprintln(d.file, a)
}

func (d *diary) close() {
	if d.file != nil {
		_ = d.file.Close()
	}
}
