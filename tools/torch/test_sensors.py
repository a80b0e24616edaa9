"""Tests of the readings of sensors: `python -m unittest test_sensors` in this folder. They need no GPU and no PyTorch."""

import unittest

import sensors
from recorded import objects


class Readings(unittest.TestCase):
    def test_a_line_has_both_numbers_or_none(self):
        self.assertEqual(sensors.reading("1755, 612.40\n"), [1755, 612.4])
        for line in ("1755, [N/A]", "[Not Supported], 612.40", "0, 70", "", "1755", "1, 2, 3"):
            self.assertIsNone(sensors.reading(line), line)

    def test_medians_leave_out_lines_without_numbers(self):
        self.assertEqual(sensors.medians([[1980, 100], None, [1700, 300], [1755, 200]]), {"sm_clock_mhz": 1755, "power_w": 200})
        self.assertIsNone(sensors.medians([None]))

    def test_readings_go_to_the_way_that_is_sampled(self):
        found = sensors.Sensors.__new__(sensors.Sensors)
        found.current, found.found = None, {}
        for name, line in ((None, "345, 77"), ("eager", "1755, 600"), ("compiled", "1700, 650"), ("eager", "1765, 610")):
            found.current = name
            found.take(line)
        self.assertEqual(found.of("eager"), {"sm_clock_mhz": 1760, "power_w": 605})
        self.assertIsNone(found.of("other"))

    def test_our_conditions_are_read_from_columns_and_from_objects(self):
        plain = [{"sm_clock_mhz": 1700, "power_w": 500}, {"sm_clock_mhz": 1710, "power_w": 510}, {"sm_clock_mhz": 1}]
        stored = {"rows": 2, "columns": {"sm_clock_mhz": {"each": [1700, 1710]}, "power_w": {"all": 505}}}
        self.assertEqual(sensors.of_record(objects(plain)), {"sm_clock_mhz": 1705, "power_w": 505})
        self.assertEqual(sensors.of_record(objects(stored)), {"sm_clock_mhz": 1705, "power_w": 505})


if __name__ == "__main__":
    unittest.main()
