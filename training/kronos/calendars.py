"""Trading calendars: when the bars of a synthetic series begin or end, and which of them follow a pause.

A bar carries five numbers that the model sees: minute, hour, weekday (Monday 0), day of the month, month.
"""

from dataclasses import dataclass

import torch

# share, minutes of a bar, first minute of the session, minutes before the break, break, minutes of the session, days a week
MARKETS = [
    (6, 1, 570, 390, 0, 390, 5), (6, 5, 570, 390, 0, 390, 5), (5, 15, 570, 390, 0, 390, 5), (3, 30, 570, 390, 0, 390, 5),
    (3, 60, 570, 390, 0, 390, 5), (3, 1, 570, 120, 90, 240, 5), (7, 5, 570, 120, 90, 240, 5), (4, 15, 570, 120, 90, 240, 5),
    (3, 60, 570, 120, 90, 240, 5), (2, 5, 480, 510, 0, 510, 5), (2, 15, 540, 510, 0, 510, 5), (2, 60, 480, 510, 0, 510, 5),
    (1, 1, 0, 1440, 0, 1440, 5), (3, 5, 0, 1440, 0, 1440, 5), (3, 15, 0, 1440, 0, 1440, 5), (3, 60, 0, 1440, 0, 1440, 5),
    (2, 1, 0, 1440, 0, 1440, 7), (4, 5, 0, 1440, 0, 1440, 7), (3, 15, 0, 1440, 0, 1440, 7), (4, 60, 0, 1440, 0, 1440, 7),
    (1, 240, 0, 1440, 0, 1440, 7), (16, 1440, 0, 1440, 0, 1440, 5), (10, 1440, 0, 1440, 0, 1440, 7),
    (5, 10080, 0, 10080, 0, 10080, 1),
]


@dataclass
class Calendar:
    """`stamps` [rows, bars, 5]; the rest [rows, bars] or, for facts of a whole series, [rows, 1]."""

    stamps: torch.Tensor
    phase: torch.Tensor  # place inside the session, from 0 to 1
    bar: torch.Tensor  # number of the bar inside the session
    weekday: torch.Tensor
    opens: torch.Tensor  # this bar opens a session
    pause: torch.Tensor  # minutes without trading before this bar
    session_bars: torch.Tensor
    minutes: torch.Tensor
    days_a_week: torch.Tensor


def month_and_day(days):
    """Month and day of the month of day numbers counted from 1 January 1970 (Gregorian calendar)."""
    shifted = days + 719468  # counted from 1 March of the year 0: leap days then fall at the end of a year
    of_era = shifted % 146097
    year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    return torch.where(month < 10, month + 3, month - 9), day


def draw_calendar(random, rows, bars):
    """Calendars for `rows` series; `random` is a torch.Generator on the device wanted."""
    device = random.device
    table = torch.tensor(MARKETS, device=device)
    kind = torch.multinomial(table[:, 0].float(), rows, replacement=True, generator=random)
    minutes, start, before_break, pause, session_minutes, days_a_week = table[kind, 1:, None].unbind(1)
    session_bars = -(-session_minutes // minutes)

    def integers(high):
        return (torch.rand(rows, 1, generator=random, device=device, dtype=torch.float64) * high).long()

    count = integers(session_bars) + torch.arange(bars, device=device)
    session, bar = count // session_bars, count % session_bars
    opens = (bar == 0) & (count > 0)
    holiday_rate = torch.where(days_a_week == 5, 0.03, 0.0)
    holidays = (opens & (torch.rand(rows, bars, generator=random, device=device) < holiday_rate)).cumsum(1)

    day_number = integers(days_a_week) + session + holidays
    monday = 4 + 7 * integers(torch.full_like(minutes, 2900))  # 5 January 1970 was a Monday
    weekly_anchor = integers(torch.full_like(minutes, 7)) * (days_a_week == 1)
    day = monday + day_number // days_a_week * 7 + day_number % days_a_week + weekly_anchor
    stamped_at_end = (integers(torch.full_like(minutes, 2)) == 1) & (minutes < 1440)
    minute = start + (bar + stamped_at_end) * minutes + pause * (bar >= before_break // minutes)
    minute = torch.minimum(minute, start + session_minutes + pause)
    day, minute = day + minute // 1440, minute % 1440

    clock = day * 1440 + minute
    idle = torch.zeros_like(clock)
    idle[:, 1:] = (clock[:, 1:] - clock[:, :-1] - minutes).clamp_min(0)
    weekday = (day + 3) % 7
    month, day_of_month = month_and_day(day)
    stamps = torch.stack([minute % 60, minute // 60, weekday, day_of_month, month], -1)
    return Calendar(stamps, bar / session_bars, bar, weekday, opens, idle, session_bars, minutes, days_a_week)
