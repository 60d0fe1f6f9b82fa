-- SPDX-License-Identifier: Apache-2.0
-- An index with skewed look-ups, then a scan, in memory.
create table item(id integer primary key, owner integer, body text);
create table visit(item integer);
with recursive n(x) as (select 1 union all select x + 1 from n where x < 5000)
insert into item select x, x * 7919 % 997, printf('%0200d', x * 104729) from n;
create index by_owner on item(owner);
-- Half of the look-ups go to 1/64 of the items.
with recursive n(x) as (select 1 union all select x + 1 from n where x < 5000)
insert into visit select 1 + x * 7919 % (case when x % 2 then 5000 else 78 end) from n;
select sum(length(body)) from visit join item on item.id = visit.item;
select owner, count(*), max(body) from item group by owner order by 2 desc limit 3;
