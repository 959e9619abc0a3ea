// pause is what a pod's sandbox runs: nothing, until told to end; it also reaps orphans when the pod shares
// its process namespace.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		for {
			if reaped, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); reaped <= 0 || err != nil {
				break
			}
		}
	}
}
