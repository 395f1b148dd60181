// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"fmt"

	"github.com/sdr-rdma/go-sdr/model"
	"github.com/sdr-rdma/go-sdr/units"
)

func Example() {
	// 3750 km of fibre, one packet of 4 KiB in 100 000 lost, repaired in units of 64 KiB.
	rtt, _ := model.Kilometers(3750).RTT(model.Fibre)
	write := model.Transfer{
		Rate: 400 * units.Gbit, RTT: rtt,
		Size: 128 * units.MiB, Unit: 64 * units.KiB,
		Drop: model.PacketDrop(1e-5).Unit(16), Control: 1e-5,
	}
	fmt.Println("RTT", rtt, "ideal", write.Ideal())
	for _, s := range []model.Scheme{model.SR{Alpha: 2}, model.EC{K: 32, M: 8, Beta: 0.5}, model.Adaptive{}} {
		r, err := model.Simulate(s, write, model.Options{Seed: 1})
		if err != nil {
			fmt.Println(err)
			return
		}
		ideal := float64(write.Ideal())
		fmt.Printf("%-8s average %.1f, 99.9th percentile %.1f of ideal\n", s.Name(),
			float64(r.Mean().Value)/ideal, float64(r.Quantile(0.999).Value)/ideal)
	}
	// Output:
	// RTT 37.5ms ideal 40.184355ms
	// sr       average 1.8, 99.9th percentile 3.8 of ideal
	// ec-mds   average 1.0, 99.9th percentile 1.0 of ideal
	// adaptive average 1.0, 99.9th percentile 1.0 of ideal
}
