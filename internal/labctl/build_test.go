package labctl

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestTheFirstBuildSaysHowLongItTakes(t *testing.T) {
	c := &compiled{}
	_, _ = io.WriteString(c, "github.com/cps-gpu/homelab/sim/pvesim\ngithub.com/cps-gpu/homelab/lab/cmd/labd\n")
	assert.Equal(t, "3s", c.say(3*time.Second+4*time.Millisecond), "a small change does not matter")
	for i := range 100 {
		_, _ = fmt.Fprintf(c, "k8s.io/p%d\nk8s.", i)
		_, _ = io.WriteString(c, "io/q\n")
	}
	assert.Equal(t, "compiling Kubernetes, once: 4 to 8 minutes on two cores, cached afterwards (2m5s so far, 202 packages, now k8s.io/q)", c.say(125*time.Second))
}

func TestAFailedBuildShowsTheCompilersWords(t *testing.T) {
	c := &compiled{}
	_, _ = io.WriteString(c, "k8s.io/api/core/v1\n# example.org/x\n./x.go:3:1: syntax error\n")
	assert.Equal(t, "# example.org/x\n./x.go:3:1: syntax error", c.errors())
	_, _ = io.WriteString(c, strings.Repeat("./y.go:1:1: no\n", 50))
	assert.Equal(t, 20, strings.Count(c.errors(), "\n")+1)
}
