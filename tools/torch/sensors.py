"""Clock and power of a card during samples, read by `nvidia-smi` beside them."""

import shutil
import statistics
import subprocess
import threading

FIELDS = "clocks.sm,power.draw"
NAMES = ("sm_clock_mhz", "power_w")


def reading(line):
    """The numbers of one line, `1755, 612.40`; None where the card lacks one."""
    parts = [part.strip() for part in line.split(",")]
    if len(parts) != len(NAMES):
        return None
    try:
        numbers = [float(part) for part in parts]
    except ValueError:
        return None
    return numbers if all(number > 0 for number in numbers) else None


def medians(readings):
    """Medians by name, or None without readings."""
    whole = [numbers for numbers in readings if numbers]
    return dict(zip(NAMES, (round(statistics.median(column), 1) for column in zip(*whole)))) if whole else None


def of_record(conditions):
    """The same of one of our records, given its conditions as a list of objects."""
    rows = ([row.get(name) for name in NAMES] for row in conditions)
    return medians(numbers for numbers in rows if all(numbers))


class Sensors:
    """Readings of the first card every `every` milliseconds, each given to the way that is sampled then."""

    def __init__(self, every=50):
        self.current, self.found, self.process = None, {}, None
        if shutil.which("nvidia-smi"):
            command = ["nvidia-smi", "-i", "0", f"--query-gpu={FIELDS}", "--format=csv,noheader,nounits", f"-lms={every}"]
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.take(line)

    def take(self, line):
        if self.current is not None:
            self.found.setdefault(self.current, []).append(reading(line))

    def of(self, name):
        return medians(self.found.get(name, []))

    def close(self):
        if self.process:
            self.process.terminate()
            self.process.wait()
