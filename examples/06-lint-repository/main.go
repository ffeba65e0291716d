// Command 06-lint-repository says what is wrong with a repository that Fleet is to deploy,
// without a cluster; it ends with 1 where something is.
//
//	go run . path/to/repository
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/cps-gpu/homelab/fleet/lint"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: lint-repository FOLDER")
	}
	root, err := os.OpenRoot(os.Args[1]) // links that lead out of it are not followed
	if err != nil {
		log.Fatal(err)
	}
	report, err := lint.Run(context.Background(), root.FS(), lint.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, finding := range report.Findings {
		fmt.Println(finding)
	}
	fmt.Println(report.Summary())
	if report.Count(lint.Failure) > 0 {
		os.Exit(1)
	}
}
