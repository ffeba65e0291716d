package guest

import (
	"context"
	"errors"
	"strings"
	"time"
)

// errPipeline is what waiting in a pipeline ends with under a simulated clock:
// the shell interpreter's pipes are the operating system's, and while one side
// reads from such a pipe, the clock of testing/synctest stands still.
var errPipeline = errors.New("waiting in a pipeline is not simulated under testing/synctest: write to a file instead")

// wait waits for simulated time.
func (p *proc) wait(ctx context.Context, d time.Duration) error {
	if p.line && time.Now().Year() < 2010 { // synctest's clock begins in 2000
		return errPipeline
	}
	if !p.sys.pause(ctx, d) {
		return context.Cause(ctx)
	}
	return nil
}

// poll waits until done, looking often at first and then once a second.
func (p *proc) poll(ctx context.Context, done func() bool) error {
	for d := 50 * time.Millisecond; !done(); d = min(2*d, time.Second) {
		if err := p.wait(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// seconds reads 5, 0.5, 2m, 1h, infinity.
func seconds(s string) (time.Duration, error) {
	if s == "infinity" {
		return 1 << 62, nil
	}
	if strings.IndexByte("smhd", s[max(0, len(s)-1)]) < 0 {
		s += "s"
	}
	return time.ParseDuration(s)
}

// download asks the internet. A machine without an address has none.
func (p *proc) download(ctx context.Context, url string) ([]byte, error) {
	if p.sys.cfg.Internet == nil || p.box == nil && !p.sys.address().IsValid() {
		return nil, errNoInternet
	}
	if !p.line && p.wait(ctx, 100*time.Millisecond) != nil {
		return nil, context.Cause(ctx)
	}
	return p.sys.cfg.Internet(url)
}

var errNoInternet = errors.New("Could not resolve host")
