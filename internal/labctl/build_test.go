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
	c := &compileCounter{program: Guests{}.program()}
	_, _ = io.WriteString(c, "github.com/cps-gpu/homelab/sim/pvesim\ngithub.com/cps-gpu/homelab/sim/lab/cmd/labd\n")
	assert.Equal(t, "building the lab: 3s", c.progress(3*time.Second+4*time.Millisecond), "a small change does not matter")
	for i := range 100 {
		_, _ = fmt.Fprintf(c, "k8s.io/p%d\nk8s.", i)
		_, _ = io.WriteString(c, "io/q\n")
	}
	assert.Equal(t, "compiling the lab, once, a minute or two: [########............] 40 %, 35s", c.progress(35*time.Second))
	c.program = Guests{Kubernetes: true}.program()
	said := c.progress(125 * time.Second)
	assert.Equal(t, "compiling the lab with Kubernetes, once, 4 to 8 minutes on two cores: [#...................] 8 %, 2m5s", said)
	assert.Less(t, len(said), 110, "a narrow terminal shows all of it")
	c.n = 9999
	assert.Contains(t, c.progress(time.Hour), "[###################.] 99 %")
}

func TestAFailedBuildShowsTheCompilersWords(t *testing.T) {
	c := &compileCounter{}
	_, _ = io.WriteString(c, "k8s.io/api/core/v1\n# example.org/x\n./x.go:3:1: syntax error\n")
	assert.Equal(t, "# example.org/x\n./x.go:3:1: syntax error", c.errors())
	_, _ = io.WriteString(c, strings.Repeat("./y.go:1:1: no\n", 50))
	assert.Equal(t, 20, strings.Count(c.errors(), "\n")+1)
}
